// node trace.cjs MODULE CLIENT ENDPOINT SITE PASSWORD drives a browser over CDP, with playwright or puppeteer.
const [, , module_, client, endpoint, site, password] = process.argv;
const path = require('path');

async function playwright() {
  const browser = await require(module_).chromium.connectOverCDP(endpoint);
  const page = await browser.contexts()[0].newPage();
  await page.goto(site + '/shop');
  await fetch(site + '/ready'); // the page is in the trace
  await page.fill('#name', 'Ada');
  await page.fill('#password', password);
  await page.selectOption('#color', 'green');
  await page.click('#buy');
  await page.locator('#done').waitFor();
  await page.evaluate(() => document.title + ' evaluated');
  await page.screenshot();
  await page.evaluate(() => { throw new Error('broken on purpose') }).catch(() => {});
  await browser.close();
}

async function puppeteer() {
  const browser = await require(path.join(module_, '../puppeteer-core')).connect({ browserWSEndpoint: endpoint, defaultViewport: null });
  const page = await browser.newPage();
  await page.goto(site + '/shop');
  await fetch(site + '/ready'); // the page is in the trace
  await page.type('#name', 'Ada');
  await page.type('#password', password);
  await page.select('#color', 'green');
  await page.click('#buy');
  await page.waitForSelector('#done');
  await page.evaluate(() => document.title + ' evaluated');
  await page.screenshot();
  await page.evaluate(() => { throw new Error('broken on purpose') }).catch(() => {});
  await browser.disconnect();
}

({ playwright, puppeteer })[client]().then(() => process.exit(), error => { console.error(error); process.exit(1) });
