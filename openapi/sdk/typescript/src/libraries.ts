// The libraries are optional: without one of them, its types are `any`.
// @ts-ignore
import type { Browser as PlaywrightBrowser, BrowserType, ConnectOverCDPOptions } from "playwright-core";
// @ts-ignore
import type { Browser as PuppeteerBrowser, ConnectOptions } from "puppeteer-core";
import { SvcError } from "./errors.js";
import { openRelay } from "./relay.js";
import type { Transport } from "./resume.js";

export type { PlaywrightBrowser, PuppeteerBrowser };
export type PlaywrightOptions = Omit<ConnectOverCDPOptions, "endpointURL" | "headers" | "isLocal"> & {
  /** `chromium` of your Playwright, if it is not found by name. */
  chromium?: BrowserType;
};
export type PuppeteerOptions = Omit<ConnectOptions, "browserURL" | "browserWSEndpoint" | "transport" | "headers"> & {
  /** Your Puppeteer, if it is not found by name. */
  puppeteer?: { connect(options: ConnectOptions): Promise<PuppeteerBrowser> };
};

export async function connectPlaywright(
  transport: Transport,
  options: PlaywrightOptions = {},
): Promise<PlaywrightBrowser> {
  const { chromium, ...rest } = options;
  const found =
    chromium ?? (await load<{ chromium: BrowserType }>(["playwright-core", "playwright", "@playwright/test"])).chromium;
  const relay = await openRelay(transport);
  try {
    // The transport moves files, so for Playwright the browser is on this machine.
    return await found.connectOverCDP(relay.address, { ...rest, isLocal: true } as ConnectOverCDPOptions);
  } catch (cause) {
    relay.close();
    throw cause;
  }
}

export async function connectPuppeteer(
  transport: Transport,
  options: PuppeteerOptions = {},
): Promise<PuppeteerBrowser> {
  const { puppeteer, ...rest } = options;
  const found = puppeteer ?? (await load<NonNullable<PuppeteerOptions["puppeteer"]>>(["puppeteer-core", "puppeteer"]));
  return found.connect({ defaultViewport: null, ...rest, transport } as ConnectOptions);
}

/** Loads the first of these packages that is installed. */
async function load<T>(names: string[]): Promise<T> {
  for (const name of names) {
    try {
      const module = (await import(name)) as T & { default?: T };
      return module.default ?? module;
    } catch (cause) {
      const code = (cause as { code?: string }).code;
      if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") throw cause;
    }
  }
  const message = `None of ${names.join(", ")} is installed. Run npm install ${names[0]}.`;
  throw new SvcError({ code: "LIBRARY_NOT_FOUND", message, status: 0, details: [], requestId: "" });
}
