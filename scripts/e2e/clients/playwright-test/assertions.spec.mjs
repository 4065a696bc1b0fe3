import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test, expect } from './fixtures.mjs';

test('waits for texts and polls', async ({ shop }) => {
  await expect(shop.cart).toHaveText('Empty');
  await shop.add('Pear');
  await expect(shop.cart).toContainText('last Pear');
  await shop.add('Plum');
  await expect(shop.cart).toHaveText('2 in the cart, last Plum');
  await shop.add('Apple');
  await expect.poll(() => shop.cart.textContent()).toBe('3 in the cart, last Apple');
  await expect(async () => expect(await shop.cart.innerText()).toContain('Apple')).toPass();
});

test('finds by role and filters', async ({ shop }) => {
  await expect(shop.page.getByRole('listitem')).toHaveCount(3);
  await expect(shop.page.getByRole('listitem').filter({ has: shop.page.getByText('Pear') })).toHaveCount(1);
  await expect(shop.page.getByRole('button').first().click({ timeout: 5000 })).resolves.toBeUndefined();
  await expect(shop.page.getByRole('button').click({ timeout: 5000 })).rejects.toThrow('strict mode violation');
});

test('waits until elements are enabled', async ({ page }) => {
  await page.goto('/form');
  await expect(page.getByRole('button')).toBeDisabled();
  await page.getByLabel('Agree').check();
  await page.getByLabel('Size').selectOption('M');
  await page.getByRole('button').click({ trial: true });
  await expect(page.getByLabel('Agree')).toBeChecked();
  await expect(page.getByLabel('Size')).toHaveValue('M');
});

test('compares the accessibility tree', async ({ shop }) => {
  await expect(shop.page.getByRole('navigation')).toMatchAriaSnapshot(`
    - navigation:
      - link "Form"
      - link "Help"
  `);
});

test('has a fixture for all tests of a worker', async ({ shop, opened, browser }) => {
  expect(opened).toContain(shop.page.url());
  expect(browser.isConnected()).toBe(true);
  expect(browser.contexts().length).toBe(1);
});

test('is retried with a trace and a video', async ({ shop }, info) => {
  await shop.add('Apple');
  await expect(shop.cart).toContainText('Apple');
  expect(info.retry, 'fails the first time').toBe(1);
  await test.step('has the screenshot of the failure', () => expect(existsSync(join(info.outputDir.replace('-retry1', ''), 'test-failed-1.png'))).toBe(true));
});
