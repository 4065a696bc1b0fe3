import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// runProgram runs a program as a user would: from a file, with the packages beside it.
const runProgram = async (source) => {
  const dir = await mkdtemp('/tmp/svc-console-');
  try {
    await symlink(fileURLToPath(new URL('../../../node_modules', import.meta.url)), join(dir, 'node_modules'));
    await writeFile(join(dir, 'program.mjs'), source);
    return (await promisify(execFile)('node', ['program.mjs'], { cwd: dir, timeout: 60_000 })).stdout.trim();
  } finally {
    await rm(dir, { recursive: true });
  }
};

// usesTools runs the programs of the section Connect, and reads the console messages and the storage state.
const usesTools = async (page, dialog, screenshot) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const site = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<title>shop</title><script>console.warn("stock is low")</script>'));
  await new Promise((done) => site.listen(0, '127.0.0.1', done));
  await dialog.getByLabel('URL').fill(`http://127.0.0.1:${site.address().port}/`);
  await dialog.getByRole('button', { name: 'Go' }).click();
  await dialog.getByText('Loaded: shop').waitFor();
  site.close();
  const client = dialog.getByRole('combobox', { name: 'Client', exact: true });
  for (const name of ['Playwright (Node.js)', 'Puppeteer']) {
    await client.selectOption(name);
    await dialog.getByRole('button', { name: 'Copy Program' }).click();
    const program = await page.evaluate(() => navigator.clipboard.readText());
    const token = /[?&]ct=([^"&]+)/.exec(program)[1];
    if ((await dialog.innerText()).includes(token)) throw new Error('the page shows the token');
    const printed = await runProgram(program.replace('"playwright"', '"playwright-core"'));
    if (printed !== 'shop') throw new Error(`the program of ${name} printed ${printed}`);
  }
  for (const name of await client.locator('option').allInnerTexts()) {
    await client.selectOption(name);
    await dialog.getByRole('region', { name: 'Program' }).getByText(/ws:|localhost:/).waitFor();
  }
  await dialog.getByRole('button', { name: 'Show messages' }).click();
  await dialog.getByText('stock is low').waitFor();
  await screenshot(page, 'console-session-390');
  await page.evaluate(() => {
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      window.saved = blob.text();
      return create.call(URL, blob);
    };
  });
  await dialog.getByRole('button', { name: 'Cookies and storage' }).click();
  await page.waitForFunction(() => window.saved);
  const state = JSON.parse(await page.evaluate(() => window.saved));
  if (!Array.isArray(state.cookies) || !Array.isArray(state.origins)) throw new Error(`the storage state is ${JSON.stringify(state)}`);
};

// Opens the live view with the link of the dashboard, signs in on the way, returns to the session, uses its tools,
// shows the live view in the page, and ends it.
export default async ({ data, newUser, settled, screenshot }) => {
  const page = await newUser({ viewport: { width: 390, height: 844 } });
  await page.goto(data.view);
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/browsers\/[0-9a-f-]{36}\/view$/);
  await page.goto(data.details);
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.keyboard.press('Enter');
  await usesTools(page, page.getByRole('dialog'), screenshot);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('dialog').getByRole('button', { name: 'View here' }).click();
  const view = page.frameLocator('iframe[title="Live view"]');
  await view.locator('canvas').first().waitFor();
  await view.locator('body[data-state=live]').waitFor();
  await screenshot(page, 'console-session-here');
  await page.getByRole('dialog').getByRole('button', { name: 'View here' }).click();
  await page.locator('iframe').waitFor({ state: 'detached' });
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).last().click();
  await page.getByRole('dialog').getByText('Ended', { exact: true }).first().waitFor();
  await page.keyboard.press('Escape');
  await page.evaluate(() => (location.hash = '/sessions?status=all'));
  await settled(page);
  await page.getByText('Ended', { exact: true }).first().waitFor();
  if ((await page.getByText('Killed').count()) > 0) throw new Error('an ordinary end is called killed');
  await screenshot(page, 'console-ended-390');
};
