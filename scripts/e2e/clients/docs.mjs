// Runs steps on the page /docs. Returns the result of each step, and the requests and errors of the page.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { Explorer } from './explorer.mjs';
import { input, writeResult } from './input.mjs';

const { endpoint, url, steps, scheme = 'light', width = 1280, screenshotDir } = await input();
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.connectOverCDP(endpoint);
try {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 1000 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const [requests, pageErrors] = [[], []];
  const refusal = /^Failed to load resource: the server responded with a status of 4\d\d/; // the result of the step has the status
  page.on('request', (r) => requests.push(r.url()));
  // A request that the next visit aborts is not an error of the page.
  page.on('requestfailed', (r) => r.failure()?.errorText !== 'net::ERR_ABORTED' && pageErrors.push(`${r.url()}: ${r.failure()?.errorText}`));
  page.on('pageerror', (error) => pageErrors.push(String(error)));
  page.on('console', (m) => m.type() === 'error' && !refusal.test(m.text()) && pageErrors.push(m.text()));
  await page.addInitScript(() => {
    new MutationObserver((_, watch) => {
      if (!document.querySelector('.opblock')) return;
      window.usable = performance.now();
      watch.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  const explorer = new Explorer(page, { url, axe, screenshotDir });
  const results = [];
  for (const [name, ...args] of steps) {
    try {
      results.push((await explorer[name](...args)) ?? null);
    } catch (error) {
      throw new Error(`${name} ${args[0] ?? ''}: ${error.message}\n${pageErrors.join('\n')}`, { cause: error });
    }
  }
  writeResult({ results, requests, pageErrors });
  await context.close();
} finally {
  await browser.close(); // disconnects, because the browser was not launched here
}
