// Opens a page with puppeteer, evaluates an expression, takes a screenshot and returns the results.
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { endpoint, headers, url, expression, close } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, headers, defaultViewport: null });
try {
  const page = await browser.newPage();
  await page.goto(url);
  const seen = { title: await page.title(), value: await page.evaluate(expression), version: await browser.version() };
  writeResult({ ...seen, screenshot: (await page.screenshot()).length });
  await (close ? browser.close() : page.close());
} finally {
  await browser.disconnect();
}
