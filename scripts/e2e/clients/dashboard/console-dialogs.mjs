// Opens the dialogs of the console with the keyboard only. Returns those that do not focus their first field, or that
// Enter does not submit.
import { keyboard } from './keyboard.mjs';

export default async ({ base, data, newUser, settled }) => {
  const page = await newUser();
  const { found, press, choose, opens, submits, leaves } = keyboard(page);
  const visit = async (path) => {
    await page.evaluate((hash) => (location.hash = hash), path);
    await settled(page);
  };
  await page.goto(`${base}/`);
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  await settled(page);

  await page.keyboard.press('?');
  await opens('Keyboard shortcuts', 'dialog');
  await leaves();
  await choose('More actions for A profile', 'End session');
  await opens('End the session of A profile?', 'Cancel');
  await leaves();
  await visit(`/sessions/${data.session}`);
  await opens('A profile', 'dialog');
  await press('button', 'End session');
  await opens('End the session of A profile?', 'Cancel');
  await press('button', 'Cancel');
  await leaves();

  await visit('/machine');
  await press('button', 'Drain');
  await opens('Drain this machine?', 'Cancel');
  await press('button', 'Drain');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await press('button', 'Resume');
  await opens('Resume launches?', 'Cancel');
  await press('button', 'Resume');
  await page.getByRole('button', { name: 'Drain' }).waitFor();

  const refused = { success: false, error: { code: 'AUTHENTICATION_ERROR', message: 'Send the worker key.' } };
  await page.route('**/fleet/**', (route) => route.fulfill({ status: 401, json: refused }));
  await page.locator('dialog[open]').waitFor();
  await page.unroute('**/fleet/**');
  await opens('Sign in again', 'Worker key');
  await page.keyboard.type(data.workerKey);
  await page.keyboard.press('Enter');
  await page.locator('dialog').waitFor({ state: 'detached' });
  return found;
};
