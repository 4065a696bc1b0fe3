// Sees a session on the page of the sessions, opens it and returns to the list. The machine has its host name here and on
// the page of the machines, with the id behind it.
import { hostname } from 'node:os';

export default async ({ base, data, newUser, open, signIn, screenshot }) => {
  const page = await newUser();
  await signIn(page, data);
  await open(page, '/sessions');
  const name = `${hostname()} (${data.machine})`;
  await page.getByRole('cell', { name, exact: true }).first().waitFor();
  await page.getByTitle(data.machine, { exact: true }).first().waitFor();
  await page.getByRole('cell', { name: 'First profile' }).first().click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('Browser started').waitFor();
  if (!page.url().startsWith(`${base}/sessions/`)) throw new Error(`the drawer has the address ${page.url()}`);
  await drawer.getByText(data.session).first().waitFor();
  await drawer.getByRole('link', { name, exact: true }).waitFor();
  await drawer.getByText(data.machine, { exact: true }).waitFor();
  const view = await drawer.getByRole('link', { name: /^Live view/ }).getAttribute('href');
  const details = await drawer.getByRole('link', { name: /^Session on the worker/ }).getAttribute('href');
  await screenshot(page, 'session-drawer');
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
  await open(page, '/machines');
  await page.getByRole('link', { name, exact: true }).waitFor();
  await page.getByRole('cell').getByText(data.machine, { exact: true }).waitFor();
  await page.getByRole('link', { name, exact: true }).click();
  const address = await page.getByRole('dialog').locator('a', { hasText: /^https?:/ }).getAttribute('href');
  await screenshot(page, 'machine-drawer');

  // More requests than the plan names: nothing is refused, so nothing is red.
  await page.evaluate(async (url) => {
    for (let i = 0; i < 70; i++) await fetch(url);
  }, `${base}/v1/profiles/stats`);
  await open(page, '/overview');
  const meter = page.getByRole('meter', { name: 'API requests this minute' });
  const [used, limit] = (await meter.getAttribute('aria-valuetext')).split(' of ').map(Number);
  if (!(used > limit)) throw new Error(`${used} requests of ${limit}`);
  if (/bad|wait/.test(await meter.getAttribute('class'))) throw new Error(`the meter is ${await meter.getAttribute('class')}`);
  if ((await page.getByText('What to do next').count()) > 0) throw new Error('the steps are shown after the last is done');
  return { view, details, address };
};
