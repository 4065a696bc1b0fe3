import { test as base, expect } from '@playwright/test';

export { expect };

export const test = base.extend({
  // opened counts the pages of a worker process, which has one browser.
  opened: [async ({}, use) => use([]), { scope: 'worker' }],
  shop: async ({ page, opened }, use) => {
    await page.goto('/');
    opened.push(page.url());
    await use({ page, cart: page.getByRole('status'), add: (name) => page.getByRole('listitem').filter({ hasText: name }).getByRole('button').click() });
  },
});
