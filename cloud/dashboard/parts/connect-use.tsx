import { CodeBlock, useAddress } from "../../../shared/web/ui";
import { texts } from "../texts/connect";
import { PanelTabs } from "./panel-tabs";

type Client = keyof typeof texts.client;

const programs: Record<Client, string> = {
  svc: `svc doctor
svc run -- node test.mjs # with the address of a browser in BROWSER_WS`,
  typescript: `import { Svc } from "@browser-svc/sdk";

const session = await new Svc().launch();
const browser = await session.playwright();
const page = await browser.newPage();
await page.goto("https://example.com/");
console.log(await page.title());
await session.end();`,
  python: `from browser_svc import Svc
from playwright.sync_api import sync_playwright

with Svc() as svc, svc.launch() as session, sync_playwright() as p:
    page = session.playwright(p).new_page()
    page.goto("https://example.com/")
    print(page.title())`,
  go: `worker, err := svc.New(svc.Options{})
session, err := worker.Launch(ctx, svc.LaunchOptions{})
defer session.End(context.WithoutCancel(ctx))
ctx, cancel := chromedp.NewRemoteAllocator(ctx, session.WebSocketURL, chromedp.NoModifyURL)`,
  curl: `curl $SVC_WORKER/sessions/profile -H "X-API-Key: $SVC_API_KEY" --json '{"spec":{}}'`,
};

/** The fourth step: programs that launch browsers on the worker. The address and the key are only in the environment. */
export function ConnectUse({ worker, workerKey }: { worker: string; workerKey: string }) {
  const [{ client }, change] = useAddress<"client">();
  const selected = client && client in programs ? (client as Client) : "svc";
  return (
    <section class="panel stack" aria-labelledby="connect-use">
      <h2 id="connect-use">{texts.useStep}</h2>
      <p class="faint">{texts.useHint}</p>
      <CodeBlock text={`export SVC_WORKER=${worker} SVC_API_KEY=${workerKey}`} label={texts.environment} />
      <PanelTabs
        label={texts.clients}
        tabs={(Object.keys(programs) as Client[]).map((id) => ({ id, label: texts.client[id] }))}
        selected={selected}
        onSelect={(id) => change({ client: id }, true)}
      >
        <CodeBlock text={programs[selected]} label={texts.program} />
        <p class="small faint">{texts.packages[selected]}</p>
      </PanelTabs>
    </section>
  );
}
