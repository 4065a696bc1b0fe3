// Opens pages in browser contexts with a proxy each, and one in the browser's own context, and returns their titles.
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { client, endpoint, visits, own, refused } = await input();

const clients = {
  async playwright() {
    const browser = await chromium.connectOverCDP(endpoint);
    return {
      own: browser.contexts()[0],
      create: ({ server, username, password }) => browser.newContext({ ignoreHTTPSErrors: true, proxy: { server, username, password } }),
      async pageOf(context) {
        return context.newPage();
      },
      leave: () => browser.close(), // disconnects, because the browser was not launched here
    };
  },
  async puppeteer() {
    const connect = endpoint.startsWith('http') ? { browserURL: endpoint } : { browserWSEndpoint: endpoint };
    const browser = await puppeteer.connect({ ...connect, defaultViewport: null, acceptInsecureCerts: true });
    return {
      own: browser.defaultBrowserContext(),
      // Without <-loopback>, Chromium connects to this machine without the proxy.
      create: ({ server }) => browser.createBrowserContext({ proxyServer: server, proxyBypassList: ['<-loopback>'] }),
      async pageOf(context, { username, password } = {}) {
        const page = await context.newPage();
        if (username) await page.authenticate({ username, password });
        return page;
      },
      leave: () => browser.disconnect(),
    };
  },
};

const { own: ownContext, create, pageOf, leave } = await clients[client]();
const titleOf = async (context, visit) => {
  const page = await pageOf(context, visit);
  await page.goto(visit.url, { timeout: 50_000 });
  return page.title();
};
try {
  const contexts = await Promise.all(visits.map(create));
  const titles = await Promise.all(visits.map((visit, i) => titleOf(contexts[i], visit)));
  titles.push(await titleOf(ownContext, { url: own }));
  const errors = await Promise.all(refused.map((server) => create({ server }).then(() => 'no error', (error) => error.message)));
  await contexts[0].close();
  writeResult({ titles, errors });
} finally {
  await leave();
}
