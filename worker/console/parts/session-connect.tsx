import { useState } from "preact/hooks";
import { CodeBlock } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";

type Session = Schema<"BrowserSession">;
type Snippet = (address: string) => string;

const t = texts.drawer;

/** The programs by client. They connect to the browser and use its first tab. */
const overCdp: Record<string, Snippet> = {
  "Playwright (Node.js)": (address) => `import { chromium } from "playwright";

const browser = await chromium.connectOverCDP("${address}");
const context = browser.contexts()[0];
const page = context.pages()[0] ?? (await context.newPage());
console.log(await page.title());
await browser.close(); // disconnects`,
  "Playwright (Python)": (address) => `from playwright.sync_api import sync_playwright

with sync_playwright() as p:
    context = p.chromium.connect_over_cdp("${address}").contexts[0]
    page = context.pages[0] if context.pages else context.new_page()
    print(page.title())`,
  Puppeteer: (address) => `import puppeteer from "puppeteer-core";

const browser = await puppeteer.connect({ browserWSEndpoint: "${address}", defaultViewport: null });
const page = (await browser.pages())[0] ?? (await browser.newPage());
console.log(await page.title());
await browser.disconnect();`,
  chromedp: (
    address,
  ) => `ctx, cancel := chromedp.NewRemoteAllocator(context.Background(), "${address}", chromedp.NoModifyURL)
defer cancel()
ctx, cancel = chromedp.NewContext(ctx)
defer cancel()
var title string
err := chromedp.Run(ctx, chromedp.Navigate("https://example.com/"), chromedp.Title(&title))`,
  "browser-use": (address) => `from browser_use import Browser

browser = Browser(cdp_url="${address}")`,
  "MCP server": (address) => `npx @playwright/mcp --cdp-endpoint "${address}"`,
};

/** WebDriver clients attach with a chromedriver on the same machine. */
const overPort = (port: number): Record<string, Snippet> => ({
  "Selenium (Python)": () => `from selenium import webdriver

options = webdriver.ChromeOptions()
options.debugger_address = "localhost:${port}"  # on the machine of the worker
driver = webdriver.Chrome(options=options)
print(driver.title)`,
});

/** A program for the chosen client that connects to the browser. It is shown without the token; the copied text has it. */
export function SessionConnect({ session }: { session: Session }) {
  const [client, setClient] = useState("Playwright (Node.js)");
  const snippets = { ...overCdp, ...(session.debugPort === null ? {} : overPort(session.debugPort)) };
  const snippet = snippets[client] ?? (() => "");
  const address = session.webSocketDebuggerUrl ?? "";
  return (
    <>
      <label class="row">
        <span>{t.client}</span>
        <select class="select" value={client} onChange={(event) => setClient(event.currentTarget.value)}>
          {Object.keys(snippets).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <CodeBlock text={snippet(address)} shown={snippet(withoutToken(address))} label={t.program} />
    </>
  );
}

export const withoutToken = (address: string): string => address.replace(/([?&]ct=)[^&]*/, "$1…");
