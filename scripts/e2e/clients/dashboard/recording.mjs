// Records a session, ends it, and opens its recording with a ticket, as its users do. Returns the findings of axe and of
// the scenario.
import { chromium } from 'playwright-core';

// record uses the recorded browser and returns the URL of the player, once the recording has ended.
const record = async (send, data) => {
  const automation = await chromium.connectOverCDP(data.recorded);
  const page = await automation.contexts()[0].newPage();
  const content = '<!doctype html><button>Pay now</button><input type=password aria-label="Card code">';
  await page.goto(`data:text/html,${encodeURIComponent(content)}`); // document.open would remove the listeners for clicks
  await page.evaluate(() => console.warn('almost there'));
  await page.waitForTimeout(2000); // the duration of the recording
  await page.getByRole('button', { name: 'Pay now' }).click();
  await page.waitForTimeout(500); // a position of its own in the video
  await page.getByLabel('Card code').click();
  await page.keyboard.type('typed-secret');
  await page.waitForTimeout(2000);
  await automation.close(); // disconnects
  const session = `/sessions/${data.session}`;
  await send('DELETE', session);
  while ((await send('GET', session)).recording.state === 'recording') await new Promise((done) => setTimeout(done, 100));
  return async () => (await send('POST', `${session}/recording/ticket`)).url;
};

// recordFromConsole starts and stops the recording of a running session.
const recordFromConsole = async (user, base, data, expect) => {
  await user.goto(`${base}/#/sessions/${data.running}`);
  const drawer = user.getByRole('dialog');
  await drawer.getByText('This session is not recorded.').waitFor();
  await drawer.getByRole('button', { name: 'Start recording' }).click();
  await user.waitForTimeout(3000); // until the browser has shown a picture
  await drawer.getByRole('button', { name: 'Stop recording' }).click();
  await drawer.getByText('Complete', { exact: true }).waitFor();
  expect(await drawer.getByRole('button', { name: /^Recording:/ }).isVisible(), 'the recording of a running session has no button');
};

export default async ({ base, data, newUser, settled, findings, overflow, screenshot }) => {
  const send = async (method, path) => {
    const response = await fetch(base + path, { method, headers: { 'X-API-Key': data.workerKey } });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()).data;
  };
  const newLink = await record(send, data);
  const found = [];
  const expect = (ok, text) => ok || found.push(text);
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const page = await newUser({ colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
    const check = async (name) => {
      await screenshot(page, `recording-${name}-${scheme}-${width}`);
      found.push(...(await findings(page)).map((f) => `recording ${name} ${scheme} ${width}: ${f}`));
      expect((await overflow(page)) <= 0, `recording ${name} ${scheme} ${width}: the page is wider than the screen`);
    };
    const link = await newLink();
    await page.goto(link);
    await settled(page);
    expect(!page.url().includes('?'), `the address is ${page.url().split('?')[0]} with a query`);
    await page.waitForFunction(() => document.querySelector('video')?.readyState >= 1);
    const video = () => page.evaluate(() => (({ currentTime, duration, paused }) => ({ currentTime, duration, paused }))(document.querySelector('video')));
    const { duration } = await video();
    expect(Number.isFinite(duration) && duration > 4, `the duration is ${duration}`);
    await check('player');

    const click = page.getByRole('button', { name: /Click.*Pay now/ });
    await click.click();
    await page.waitForFunction(() => document.querySelector('video').currentTime > 1.5);
    const current = page.locator('.player-list [aria-current]');
    await current.filter({ hasText: 'Pay now' }).waitFor();
    const clicked = (await video()).currentTime;
    await page.keyboard.press('Space');
    await page.waitForFunction((at) => document.querySelector('video').currentTime > at + 0.2, clicked);
    await page.keyboard.press('Space');
    expect((await video()).paused, 'the space key does not pause');
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction((at) => document.querySelector('video').currentTime < at, clicked);
    await click.focus();
    await page.keyboard.press('ArrowDown');
    const next = await page.evaluate(() => document.activeElement.textContent);
    await page.keyboard.press('Enter');
    await page.waitForFunction((at) => document.querySelector('video').currentTime >= at, clicked);
    expect(!next.includes('Pay now'), 'the arrow key selects no other event');
    await page.getByLabel(/^Click/).uncheck();
    await click.waitFor({ state: 'hidden' });
    const text = await page.locator('body').innerText();
    for (const want of ['almost there', 'Card code', 'Tab opened']) expect(text.includes(want), `the page lacks ${want}`);
    expect(!text.includes('typed-secret'), 'the page shows what was typed');
    await check('filtered');

    await page.reload();
    await settled(page);
    await page.waitForFunction(() => document.querySelector('video')?.readyState >= 1);
    const other = await page.evaluate((address) => fetch(address).then((r) => r.status), `${base}/sessions/${data.other}/recording/events`);
    expect(other === 401, `the recording of another session: ${other}`);

    const otherUser = await newUser({ colorScheme: scheme, viewport: { width, height: 900 } });
    await otherUser.goto(link);
    await otherUser.getByLabel('Worker key').waitFor();
    await otherUser.getByLabel('Worker key').fill(data.workerKey);
    await otherUser.getByRole('button', { name: 'Sign in' }).click();
    await otherUser.locator('video').waitFor();
    await otherUser.context().close();
    await page.context().close();
  }
  const user = await newUser();
  await user.goto(`${base}/#/sessions?status=all`);
  await user.getByLabel('Worker key').fill(data.workerKey);
  await user.getByRole('button', { name: 'Sign in' }).click();
  await user.context().addInitScript(() => {
    HTMLMediaElement.prototype.canPlayType = (type) => (type.startsWith('video/mp4') ? 'probably' : ''); // as in older versions of Safari
  });
  const opened = user.context().waitForEvent('page');
  await user.getByRole('button', { name: /^Recording:/ }).first().click();
  const player = await opened;
  await player.locator('.player').waitFor();
  await player.waitForFunction(() => document.querySelector('video')?.readyState >= 1);
  const source = await player.evaluate(() => document.querySelector('video').currentSrc);
  expect(source.endsWith('?format=mp4'), `a web browser without WebM gets ${source}`);
  await recordFromConsole(user, base, data, expect);
  return found;
};
