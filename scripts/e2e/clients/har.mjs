// Records a page with `record: ["har"]`: visits it with playwright over CDP. With har, validates that file, and visits the
// page while playwright answers all requests from the file.
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';
import { har as validate } from 'har-validator/lib/promise.js';
import { input, writeResult } from './input.mjs';

const { endpoint, url, har } = await input();
if (har) await validate(JSON.parse(await readFile(har, 'utf8'))).catch(({ errors }) => { throw new Error(JSON.stringify(errors)); });
const browser = await chromium.connectOverCDP(endpoint);
try {
  const context = har ? await browser.newContext() : browser.contexts()[0];
  if (har) await context.routeFromHAR(har, { notFound: 'abort' });
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForFunction(() => document.title !== 'loading');
  writeResult({ title: await page.title(), width: await page.evaluate(() => document.images[0].naturalWidth), url: page.url() });
} finally {
  await browser.close();
}
