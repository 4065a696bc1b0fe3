// Without Playwright Test, its types are `any`.
// @ts-ignore
import { test as base, type Browser } from "@playwright/test";
import { Svc, type LaunchOptions, type SvcOptions } from "./svc.js";
import type { Session } from "./session.js";

export { expect } from "@playwright/test";

/** Options of `use` in the configuration of Playwright Test. */
export interface SvcTestOptions {
  /** The workers and their key; by default those of SVC_WORKER and SVC_API_KEY. */
  svc: SvcOptions;
  /** The launch of the browsers. `headless` of `use` applies unless it is set here. */
  svcLaunch: LaunchOptions;
}

export interface SvcTestFixtures {
  /** The browser of this process. */
  svcSession: Session;
}

/** `test` of Playwright Test with one browser of svc for each of its processes. */
export const test = base.extend<{ svcReport: void }, SvcTestOptions & SvcTestFixtures>({
  svc: [{}, { option: true, scope: "worker" }],
  svcLaunch: [{}, { option: true, scope: "worker" }],
  svcSession: [
    async ({ svc, svcLaunch, headless }, use, info) => {
      const client = new Svc(svc);
      const name = `Playwright Test, process ${info.workerIndex}`;
      const session = await client.launch({
        headless: headless ?? true,
        name,
        waitSeconds: 60,
        record: ["video"],
        ...svcLaunch,
      });
      await use(session);
      await session.end();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  browser: [
    async ({ svcSession, playwright }, use) => {
      const browser = (await svcSession.playwright({ chromium: playwright.chromium })) as Browser;
      await use(browser);
      await browser.close();
    },
    { scope: "worker", timeout: 60_000 },
  ],
  // Playwright Test starts a new process after a failed test, so the recording can end with it.
  svcReport: [
    async ({ svcSession }, use, info) => {
      // Reports are kept, so the link has no token.
      if (svcSession.consoleUrl) info.annotations.push({ type: "live view", description: svcSession.consoleUrl });
      await use();
      const { recording } = svcSession.info;
      if (info.status === info.expectedStatus) return;
      if (recording?.viewerUrl) info.annotations.push({ type: "svc.trace", description: recording.viewerUrl }); // a property in JUnit
      if (!recording?.video) return;
      const path = info.outputPath("recording.webm");
      await svcSession.recording.save(path);
      await info.attach("recording", { path, contentType: "video/webm" });
    },
    { auto: true },
  ],
});
