import { readFileSync } from 'node:fs';
import { test, expect } from '@playwright/test';
import { statePath } from './state.mjs';

test.use({ storageState: async ({}, use, info) => use(statePath(info)) });

test('is signed in', async ({ page }) => {
  await page.goto('/account');
  await expect(page.getByRole('heading')).toHaveText('Hello Ada');
});

test('requests with the cookies of the page and of the state', async ({ page, request }) => {
  const response = await page.request.get('/account');
  await expect(response).toBeOK();
  expect(await response.text()).toContain('Hello Ada');
  expect(await (await request.get('/account')).text()).toContain('Hello Ada');
});

test('has other contexts without the user', async ({ browser, baseURL }) => {
  const context = await browser.newContext({ baseURL, storageState: { cookies: [], origins: [] } });
  const response = await (await context.newPage()).goto('/account');
  expect(response.status()).toBe(401);
  await context.close();
});

test('reads the state of origins', async ({ page, context }, info) => {
  await page.goto('/');
  await page.evaluate(() => localStorage.setItem('theme', 'dark'));
  const state = await context.storageState();
  expect(state.origins[0].localStorage).toEqual([{ name: 'theme', value: 'dark' }]);
  expect(JSON.parse(readFileSync(statePath(info))).cookies[0]).toMatchObject({ name: 'session', value: 'Ada' });
});
