// Audits a page with Lighthouse in a tab of a browser at an endpoint, which puppeteer connects to, and returns the results.
import lighthouse from 'lighthouse';
import puppeteer from 'puppeteer-core';
import { input, writeResult } from '../input.mjs';

const { endpoint, headers, url, expression } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, headers, defaultViewport: null });
try {
  const page = await browser.newPage();
  const { lhr, artifacts } = await lighthouse(url, { onlyCategories: ['seo'], logLevel: 'error' }, undefined, page);
  const title = lhr.audits['document-title'].score === 1 ? await page.title() : 'none';
  const version = lhr.environment.hostUserAgent.match(/Chrome\/([\d.]+)/)[1];
  if (lhr.runtimeError) throw new Error(lhr.runtimeError.message);
  const picture = Buffer.from(artifacts.FullPageScreenshot?.screenshot.data.split(',')[1] ?? (await page.screenshot({ encoding: 'base64' })), 'base64');
  writeResult({ title, value: await page.evaluate(expression), version, screenshot: picture.length });
  await page.close();
} finally {
  await browser.disconnect();
}
