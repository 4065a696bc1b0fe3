// Opens a page with playwright, over CDP or its own protocol, evaluates an expression, takes a screenshot and returns the results.
import { chromium } from 'playwright-core';
import { input, writeResult } from './input.mjs';

const { endpoint, headers, url, expression, close } = await input();
const own = new URL(endpoint).pathname.endsWith('/playwright');
const browser = own ? await chromium.connect(endpoint) : await chromium.connectOverCDP(endpoint, { headers });
try {
  const page = await (own ? browser : browser.contexts()[0]).newPage();
  await page.goto(url);
  const seen = { title: await page.title(), value: await page.evaluate(expression), version: browser.version() };
  writeResult({ ...seen, screenshot: (await page.screenshot()).length });
  if (close) await (await browser.newBrowserCDPSession()).send('Browser.close');
  else await page.close();
} finally {
  await browser.close(); // disconnects, because the browser was not launched here
}
