// Chooses a directory of this machine with Playwright, which the browser cannot read, and returns the errors. Then it
// chooses files with the same page.
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { input, writeResult } from './input.mjs';

const { endpoint } = await input();
const directory = await mkdtemp(join(tmpdir(), 'chosen-'));
await writeFile(join(directory, 'note.txt'), 'content');

const timeout = 10_000;
const messageOf = (promise) => promise.then(() => '', (error) => error.message);

const browser = await chromium.connectOverCDP(endpoint);
try {
  const page = await (await browser.newContext()).newPage();
  await page.setContent('<input id="directory" type="file" webkitdirectory><input id="files" type="file" multiple>');
  const chooser = page.locator('#directory');
  const [locator, sum] = await Promise.all([messageOf(chooser.setInputFiles(directory, { timeout })), page.evaluate('20 + 22')]);
  const again = await messageOf(page.setInputFiles('#directory', directory, { timeout }));
  const handle = await messageOf((await chooser.elementHandle()).setInputFiles(directory, { timeout }));
  await page.locator('#files').setInputFiles(join(directory, 'note.txt'));
  const uploaded = await page.evaluate(`document.querySelector('#files').files[0].text()`);
  writeResult({ directory, errors: [locator, again, handle], sum, uploaded });
} finally {
  await browser.close();
}
