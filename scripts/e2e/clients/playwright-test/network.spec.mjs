import { readFileSync } from 'node:fs';
import { test, expect } from './fixtures.mjs';

test('fulfills requests', async ({ page }) => {
  await page.route('**/made-up', (route) => route.fulfill({ json: { value: 42 } }));
  await page.goto('/');
  expect(await page.evaluate(() => fetch('/made-up').then((response) => response.json()))).toEqual({ value: 42 });
});

test('changes and refuses requests', async ({ page, context }) => {
  await context.route('**/headers', (route) => route.continue({ headers: { ...route.request().headers(), 'x-suite': 'yes' } }));
  await page.route('**/form', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace('Agree', 'Accept') });
  });
  await page.route('**/popup', (route) => route.abort());
  await page.goto('/form');
  await expect(page.getByLabel('Accept')).toBeVisible();
  expect(await page.evaluate(() => fetch('/headers').then((response) => response.json()))).toMatchObject({ 'x-suite': 'yes' });
  await expect(page.goto('/popup')).rejects.toThrow('ERR_FAILED');
});

test('waits for responses', async ({ page }) => {
  await page.setExtraHTTPHeaders({ 'x-extra': 'one' });
  const [response] = await Promise.all([page.waitForResponse((r) => r.url().endsWith('/headers')), page.goto('/headers')]);
  expect(await response.json()).toMatchObject({ 'x-extra': 'one' });
  expect((await response.allHeaders())['content-type']).toBe('application/json');
  expect(response.request().timing().responseEnd).toBeGreaterThan(0);
});

test('records and replays HAR', async ({ browser, baseURL }, info) => {
  const path = info.outputPath('requests.har');
  const first = await browser.newContext({ baseURL, recordHar: { path } });
  await (await first.newPage()).goto('/form');
  await first.close();
  expect(JSON.parse(readFileSync(path)).log.entries.map((entry) => entry.request.url)).toContain(`${baseURL}/form`);
  const second = await browser.newContext({ baseURL });
  await second.routeFromHAR(path);
  const page = await second.newPage();
  await page.goto('/form');
  await expect(page).toHaveTitle('Form');
  await expect(page.goto('/popup')).rejects.toThrow();
  await second.close();
});

test.describe('with credentials', () => {
  test.use({ httpCredentials: { username: 'ada', password: 'secret' } });

  test('authenticates pages and requests', async ({ page }) => {
    await page.goto('/protected');
    await expect(page).toHaveTitle('Protected');
    await expect(await page.request.get('/protected')).toBeOK();
  });
});

test('answers WebSockets', async ({ page }) => {
  await page.routeWebSocket('ws://suite.test/', (socket) => socket.onMessage((message) => socket.send(`${message} back`)));
  await page.goto('/');
  expect(await page.evaluate(() => new Promise((done) => {
    const socket = new WebSocket('ws://suite.test/');
    socket.onopen = () => socket.send('there and');
    socket.onmessage = (event) => done(event.data);
  }))).toBe('there and back');
});
