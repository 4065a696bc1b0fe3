// Opens a page in a browser with an extension, and a page of the extension. Returns their titles, the URL of the extension's
// service worker, and the error of an attempt to load another extension.
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { client, endpoint, url, page: extensionPage } = await input();

const clients = {
  async playwright() {
    const browser = await chromium.connectOverCDP(endpoint);
    const context = browser.contexts()[0];
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const page = await context.newPage();
    const titleOf = async (address) => {
      await page.goto(address);
      return page.title();
    };
    const session = await browser.newBrowserCDPSession();
    const load = (path) => session.send('Extensions.loadUnpacked', { path });
    return { worker: worker.url(), titleOf, load, leave: () => browser.close() };
  },
  async puppeteer() {
    const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
    const worker = await browser.waitForTarget((target) => target.type() === 'service_worker');
    const page = await browser.newPage();
    const titleOf = async (address) => {
      await page.goto(address);
      return page.title();
    };
    return { worker: worker.url(), titleOf, load: (path) => browser.installExtension(path), leave: () => browser.disconnect() };
  },
};

const { worker, titleOf, load, leave } = await clients[client]();
const titles = [await titleOf(url), await titleOf(extensionPage)];
const refusal = await load('/tmp').then(
  () => '',
  (error) => error.message,
);
await leave();
writeResult({ worker, titles, refusal });
