// Opens a page with puppeteer, evaluates an expression in it, and tells what came of it.
import puppeteer from 'puppeteer-core';
import { answer, input } from './input.mjs';

const { endpoint, url, expression } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
try {
  const page = await browser.newPage();
  await page.goto(url);
  answer({ title: await page.title(), value: await page.evaluate(expression), version: await browser.version() });
  await page.close();
} finally {
  await browser.disconnect();
}
