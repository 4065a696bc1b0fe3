import { test, expect } from './fixtures.mjs';

test('opens a popup', async ({ shop }) => {
  const [popup] = await Promise.all([shop.page.waitForEvent('popup'), shop.page.getByRole('link', { name: 'Help' }).click()]);
  await expect(popup).toHaveTitle('Help');
  await Promise.all([popup.waitForEvent('close'), popup.getByRole('button').click()]);
});

test('acts in frames', async ({ page }) => {
  await page.goto('/frames');
  const name = page.frameLocator('[name=outer]').frameLocator('[name=inner]').getByLabel('Name');
  await name.fill('Grace');
  await expect(name).toHaveValue('Grace');
  expect(page.frames()).toHaveLength(3);
});

test('answers dialogs', async ({ page }) => {
  await page.goto('/dialogs');
  page.on('dialog', (dialog) => dialog.accept(dialog.type() === 'prompt' ? 'Grace' : undefined));
  await page.getByRole('button').click();
  await expect(page.locator('#out')).toHaveText('true,Grace');
});

test('presses keys', async ({ page }) => {
  await page.goto('/form');
  const name = page.getByLabel('Name');
  await name.pressSequentially('Adaa');
  await page.keyboard.press('Backspace');
  await expect(name).toHaveValue('Ada');
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText('漢字');
  await expect(name).toHaveValue('漢字');
});

test('drags and drops', async ({ page }) => {
  await page.goto('/drag');
  await page.locator('#box').dragTo(page.locator('#place'));
  await expect(page.locator('#place')).toHaveText('dropped');
});

test('navigates', async ({ page }) => {
  await page.goto('/');
  await page.getByRole('link', { name: 'Form' }).click();
  await page.waitForURL('**/form');
  await page.goBack();
  await expect(page).toHaveTitle('Shop');
  await page.goForward();
  await expect(page).toHaveURL(/form$/);
  expect((await page.goto('/missing')).status()).toBe(404);
});

test('takes screenshots and prints', async ({ page }, info) => {
  await page.goto('/drag');
  const box = await page.locator('#box').screenshot();
  expect([box.readUInt32BE(16), box.readUInt32BE(20)]).toEqual([50, 50]); // in the header of a PNG
  expect((await page.screenshot({ path: info.outputPath('page.png'), fullPage: true })).length).toBeGreaterThan(1000);
  expect((await page.screenshot({ type: 'jpeg', quality: 50 })).readUInt16BE(0)).toBe(0xffd8);
  expect((await page.pdf()).subarray(0, 5).toString()).toBe('%PDF-');
});

test('reports messages and errors', async ({ page }) => {
  await page.goto('/');
  const [message] = await Promise.all([page.waitForEvent('console'), page.evaluate(() => console.warn('careful', { a: 1 }))]);
  expect([message.type(), await message.args()[1].jsonValue()]).toEqual(['warning', { a: 1 }]);
  const [error] = await Promise.all([page.waitForEvent('pageerror'), page.evaluate(() => { setTimeout(() => { throw new Error('broken'); }); })]);
  expect(error.message).toBe('broken');
});

test('runs scripts first and exposes functions', async ({ page, context }) => {
  await context.addInitScript(() => { window.before = document.readyState; });
  await page.exposeFunction('double', (n) => 2 * n);
  await page.goto('/');
  expect(await page.evaluate(async () => [window.before, await window.double(21)])).toEqual(['loading', 42]);
});

test('has a clock', async ({ page }) => {
  await page.clock.install({ time: new Date('2030-01-01T00:00:00Z') });
  await page.goto('/');
  await page.clock.fastForward('01:00:00');
  expect(await page.evaluate(() => new Date().toISOString())).toContain('2030-01-01T01:00');
});

test('sees workers of a page', async ({ page }) => {
  await page.goto('/');
  const [worker] = await Promise.all([page.waitForEvent('worker'), page.evaluate(() => { new Worker(URL.createObjectURL(new Blob(['self.answer = 42']))); })]);
  await expect.poll(() => worker.evaluate(() => self.answer)).toBe(42);
});

test('uses CDP', async ({ page, context, browserName }) => {
  test.skip(browserName !== 'chromium');
  const session = await context.newCDPSession(page);
  expect((await session.send('Runtime.evaluate', { expression: '6 * 7' })).result.value).toBe(42);
});
