import { test, expect } from '@playwright/test';
import { statePath } from './state.mjs';

test('signs in', async ({ page }, info) => {
  await page.goto('/login');
  await page.getByLabel('User').fill('Ada');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('heading')).toHaveText('Hello Ada');
  await page.context().storageState({ path: statePath(info) });
});
