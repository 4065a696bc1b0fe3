// Uses /docs as a person would, step by step, and tells what each step came to and what the page did besides.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { Explorer } from './explorer.mjs';
import { answer, input } from './input.mjs';

const { endpoint, url, steps, scheme = 'light', width = 1280, pictures } = await input();
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.connectOverCDP(endpoint);
try {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 1000 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const [requests, complaints] = [[], []];
  const refusal = /^Failed to load resource: the server responded with a status of 4\d\d/; // the step tells of it
  page.on('request', (r) => requests.push(r.url()));
  // What the next visit cuts off is no fault of the page.
  page.on('requestfailed', (r) => r.failure()?.errorText !== 'net::ERR_ABORTED' && complaints.push(`${r.url()}: ${r.failure()?.errorText}`));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (m) => m.type() === 'error' && !refusal.test(m.text()) && complaints.push(m.text()));
  await page.addInitScript(() => {
    new MutationObserver((_, watch) => {
      if (!document.querySelector('.opblock')) return;
      window.usable = performance.now();
      watch.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  const explorer = new Explorer(page, { url, axe, pictures });
  const results = [];
  for (const [name, ...args] of steps) {
    try {
      results.push((await explorer[name](...args)) ?? null);
    } catch (error) {
      throw new Error(`${name} ${args[0] ?? ''}: ${error.message}\n${complaints.join('\n')}`, { cause: error });
    }
  }
  answer({ results, requests, complaints });
  await context.close();
} finally {
  await browser.close(); // of a connection, that is to disconnect
}
