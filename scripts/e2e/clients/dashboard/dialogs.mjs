// Opens the dialogs of the dashboard with the keyboard only. Returns those that do not focus their first field, or that
// Enter does not submit.
import { hostname } from 'node:os';
import { keyboard } from './keyboard.mjs';

export default async ({ data, newUser, open, signIn, findings, screenshot }) => {
  const page = await newUser();
  await signIn(page, data.user);
  const { found, press, choose, opens, submits, leaves } = keyboard(page);
  const dialog = page.getByRole('dialog');

  // Dialogs without fields: nothing is changed by a first Enter.
  await page.keyboard.press('?');
  await opens('Keyboard shortcuts', 'dialog');
  await leaves();
  await open(page, `/sessions/${data.session}`);
  await opens('A profile', 'dialog');
  await leaves();
  await open(page, '/machines');
  await press('link', `${hostname()} (console)`);
  await opens(hostname(), 'dialog');
  await press('button', 'Rename');
  await submits('Rename', 'Name', 'Rack 4');
  await opens('Rack 4', 'Rename');
  await leaves();
  await open(page, '/account');
  await press('button', 'Sign out everywhere');
  await opens('Sign out everywhere', 'Cancel');
  await leaves();

  await press('button', 'Create access token');
  await opens('Create access token', 'Name');
  await page.keyboard.type('deployment');
  await press('button', 'Create access token');
  await dialog.getByText('Add at least 1.').waitFor();
  await press('checkbox', 'sessions:read read sessions, machines and license usage');
  await screenshot(page, 'access-token-dialog');
  await press('button', 'Create access token');
  await opens('Store the new access token', 'I have stored the token');
  const token = await dialog.locator('code').innerText();
  const answer = await fetch(new URL('/v1/machines', page.url()), { headers: { authorization: `Bearer ${token.trim()}` } });
  if (answer.status !== 200) found.push(`the new access token was answered with ${answer.status}`);
  await press('checkbox', 'I have stored the token');
  await press('button', 'Close');
  await screenshot(page, 'access-tokens');
  await press('button', 'Revoke deployment');
  await opens('Revoke deployment', 'Cancel');
  await press('button', 'Revoke');
  await page.getByText('No access tokens').waitFor();

  await open(page, '/settings/service-accounts');
  await press('button', 'Create service account');
  await opens('Create service account', 'Name');
  await page.keyboard.type('robot');
  await press('checkbox', 'sessions:read read sessions, machines and license usage');
  await press('button', 'Create service account');
  await page.getByText('Access tokens of robot').waitFor();
  await press('button', 'Create access token');
  await opens('Create access token', 'Name');
  await page.keyboard.type('production');
  await press('checkbox', 'sessions:read read sessions, machines and license usage');
  await press('button', 'Create access token');
  await opens('Store the new access token', 'I have stored the token');
  const robot = await dialog.locator('code').innerText();
  const askAs = async (status) => {
    const { status: got } = await fetch(new URL('/v1/machines', page.url()), { headers: { authorization: `Bearer ${robot.trim()}` } });
    if (got !== status) found.push(`the token of the service account was answered with ${got}, want ${status}`);
  };
  await askAs(200);
  await press('checkbox', 'I have stored the token');
  await press('button', 'Close');
  found.push(...(await findings(page)));
  await screenshot(page, 'service-accounts');
  await choose('Actions for robot', 'Disable');
  await opens('Disable robot', 'Cancel');
  await press('button', 'Disable');
  await page.getByText('The account is disabled.').waitFor();
  await askAs(401);
  await choose('Actions for robot', 'Delete');
  await submits('Delete robot', 'Enter robot to confirm', 'robot');
  await page.getByText('No service accounts').waitFor();

  await open(page, '/settings/keys');
  await press('button', 'Create key');
  await submits('Create key', 'Name', 'typed');
  await opens('Store the new key', 'I have stored the key');
  await press('checkbox', 'I have stored the key');
  await press('button', 'Close');
  await choose('Actions for typed', 'Rename or change expiry');
  await submits('Edit typed', 'Name', 'renamed');
  await choose('Actions for renamed', 'Revoke');
  await submits('Revoke renamed', 'Enter renamed to confirm', 'renamed');

  await open(page, '/settings/members');
  await press('button', 'Invite');
  await submits('Invite a member', 'E-mail address', data.invited);
  await opens('Invitation link', 'Copy');
  await leaves();
  await press('button', 'Revoke');
  await opens(`Revoke the invitation of ${data.invited}`, 'Cancel');
  await press('button', 'Revoke');
  await page.getByText('Invitation revoked').waitFor();
  await choose('Actions for Ada', 'Change role');
  await opens('Change the role', 'Role');
  await leaves();

  await open(page, '/settings/organization');
  await press('button', 'Delete organization');
  await opens('Delete', 'Enter');
  await leaves();

  await open(page, '/billing');
  await press('button', 'Buy');
  await submits('Buy', 'Quantity', '1');

  await open(page, '/profiles');
  await press('button', 'Import');
  await opens('Import profiles', 'Choose a file');
  await leaves();
  await press('button', 'Export all');
  await opens('Export', 'Cancel');
  await leaves();
  await choose('Actions for A profile', 'Duplicate');
  await submits('Duplicate', 'Name', 'by keyboard');
  await page.waitForURL(/\/profiles\/[0-9a-f-]{36}$/);
  await open(page, '/profiles');
  await press('checkbox', 'Select by keyboard');
  await press('button', 'Add tag');
  await submits('Add a tag', 'Tag', 'keyboard');
  await press('button', 'Close');
  await choose('Actions for by keyboard', 'Delete');
  await submits('Delete', 'Enter by keyboard to confirm', 'by keyboard');
  return found;
};
