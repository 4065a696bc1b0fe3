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
  await screenshot(page, 'session-drawer');
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
  await open(page, '/machines');
  await page.getByRole('link', { name, exact: true }).waitFor();
  await page.getByRole('cell').getByText(data.machine, { exact: true }).waitFor();
};
