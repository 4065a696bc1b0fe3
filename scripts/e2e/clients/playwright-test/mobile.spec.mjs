import { test, expect } from './fixtures.mjs';

test('has the viewport of the device', async ({ page }) => {
  await page.goto('/');
  expect(await page.evaluate(() => [innerWidth, devicePixelRatio])).toEqual([412, 2.625]);
  expect(await page.evaluate(() => navigator.userAgent)).toContain('Pixel 7');
});

test('taps', async ({ page }) => {
  await page.goto('/touch');
  await page.getByRole('button').tap();
  await expect(page.locator('#out')).toHaveText('touched');
});

test('emulates a locale, a time zone and a place', async ({ browser, baseURL }) => {
  const context = await browser.newContext({
    baseURL, locale: 'de-DE', timezoneId: 'Asia/Tokyo', geolocation: { latitude: 48, longitude: 11 }, permissions: ['geolocation'],
  });
  const page = await context.newPage();
  await page.goto('/');
  expect(await page.evaluate(() => [(1234.5).toLocaleString(), Intl.DateTimeFormat().resolvedOptions().timeZone])).toEqual(['1.234,5', 'Asia/Tokyo']);
  expect(await page.evaluate(() => new Promise((done) => navigator.geolocation.getCurrentPosition((p) => done(p.coords.latitude))))).toBe(48);
  await context.close();
});

test('emulates media and the network', async ({ page, context }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto('/');
  expect(await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches)).toBe(true);
  await context.setOffline(true);
  await expect(page.goto('/form')).rejects.toThrow('ERR_INTERNET_DISCONNECTED');
});
