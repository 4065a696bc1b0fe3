import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { test, expect } from './fixtures.mjs';

const report = 'name,count\nApple,1\n';

test('saves downloads', async ({ page }, info) => {
  await page.goto('/files');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Report').click()]);
  expect(download.suggestedFilename()).toBe('report.csv');
  await download.saveAs(info.outputPath('saved.csv'));
  expect(readFileSync(info.outputPath('saved.csv'), 'utf8')).toBe(report);
});

test('reads downloads', async ({ page }) => {
  await page.goto('/files');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Report').click()]);
  expect(await text(await download.createReadStream())).toBe(report);
  expect(await download.failure()).toBeNull();
});

test('cancels downloads', async ({ page }) => {
  await page.goto('/files');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Endless').click()]);
  await download.cancel();
  expect(await download.failure()).toBe('canceled');
});

test('uploads files', async ({ page }, info) => {
  writeFileSync(info.outputPath('large.bin'), Buffer.alloc(2 << 20, 'x'));
  await page.goto('/upload');
  await page.locator('[name=files]').setInputFiles([info.outputPath('large.bin')]);
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('pre')).toHaveText(`large.bin ${2 << 20}`);
});

test('uploads contents', async ({ page }) => {
  await page.goto('/upload');
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('[name=files]').click()]);
  await chooser.setFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('abc') }, { name: 'b.txt', mimeType: 'text/plain', buffer: Buffer.from('de') }]);
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('pre')).toHaveText('a.txt 3 b.txt 2');
});

test('uploads directories', async ({ page }, info) => {
  mkdirSync(info.outputPath('tree/below'), { recursive: true });
  writeFileSync(info.outputPath('tree/below/leaf.txt'), 'leaf');
  await page.goto('/upload');
  await page.locator('[name=tree]').setInputFiles(info.outputPath('tree'));
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('pre')).toHaveText('tree/below/leaf.txt 4');
});

test('records videos and traces', async ({ browser, baseURL }, info) => {
  const context = await browser.newContext({ baseURL, recordVideo: { dir: info.outputPath('videos') } });
  const page = await context.newPage();
  await page.goto('/');
  await page.getByRole('button').first().click();
  await expect(page.getByRole('status')).toContainText('Apple');
  await context.close();
  await page.video().saveAs(info.outputPath('video.webm'));
  expect(readFileSync(info.outputPath('video.webm')).readUInt32BE(0)).toBe(0x1a45dfa3);
});
