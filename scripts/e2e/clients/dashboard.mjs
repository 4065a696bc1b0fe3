// Runs one scenario of clients/dashboard/ in a browser of the worker. Returns the result of the scenario, and the
// requests and errors of its pages.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { input, writeResult } from './input.mjs';

const { endpoint, base, scenario, screenshotDir, data } = await input();
const axeSource = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.connectOverCDP(endpoint);
const requests = [];
const pageErrors = [];
const contexts = [];

// Browsers log each refused request. The scenarios assert what the page shows for it.
const refusal = /^Failed to load resource: /;

// newUser returns a page with cookies of its own.
const newUser = async (options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  contexts.push(context);
  context.on('request', (r) => requests.push(r.url()));
  context.on('weberror', (e) => pageErrors.push(String(e.error())));
  context.on('console', (m) => m.type() === 'error' && !refusal.test(m.text()) && pageErrors.push(m.text()));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000); // tests of other packages run at the same time
  return page;
};

// open opens a page of the dashboard and waits until it has loaded its data.
const open = async (page, path) => {
  await page.goto(base + path);
  await settled(page);
};

const settled = async (page) => {
  await page.locator('h1').first().waitFor();
  await page.waitForFunction(() => !document.querySelector('.skeleton'));
};

// findings returns the violations that axe finds, as rule and element.
const findings = async (page) => {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axeSource); // not as a script of the page, which its policy forbids
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')} ${n.failureSummary ?? ''}`));
  });
};

// overflow returns by how many pixels the page is wider than the screen.
const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

const screenshot = async (page, name) => {
  if (screenshotDir) await page.screenshot({ path: `${screenshotDir}/${name}.png`, fullPage: true });
};

const signIn = async (page, { email, password }) => {
  await page.goto(`${base}/sign-in`);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.waitForURL((url) => url.pathname.endsWith('/overview'));
  await settled(page);
};

try {
  const { default: run } = await import(`./dashboard/${scenario}.mjs`);
  const result = await run({ base, data, newUser, open, settled, signIn, findings, overflow, screenshot });
  writeResult({ result: result ?? null, requests, pageErrors });
} catch (error) {
  for (const context of contexts) {
    const page = context.pages().at(-1);
    const text = await page?.locator('body').innerText().catch(String);
    console.error(`--- ${page?.url().split('#')[0]}\n${text?.slice(0, 2500)}\n---`);
  }
  throw error;
} finally {
  for (const context of contexts) await context.close().catch(() => undefined);
  await browser.close(); // disconnects, because the browser was not launched here
}
