// Rotates a key: creates the replacement, waits until the worker uses it, and revokes the old key.
export default async ({ data, newUser, open, signIn, screenshot }) => {
  const page = await newUser();
  await signIn(page, data.user);
  await open(page, '/settings/keys');
  const row = page.getByRole('row').filter({ hasText: 'fleet' });
  await row.getByText('No machine').waitFor({ state: 'detached', timeout: 60_000 });
  await row.getByRole('button', { name: /actions/i }).click();
  await page.getByRole('menuitem', { name: 'Rotate' }).click();
  await page.getByRole('button', { name: 'Create replacement' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  const key = /svc_[A-Za-z0-9]+/.exec(await dialog.innerText())[0];
  await page.keyboard.press('Escape'); // a key that was not stored is not hidden
  await dialog.getByLabel('I have stored the key').check();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
  if (page.url().includes(key)) throw new Error('the address contains the key');

  // The wizard is left and opened again by its address.
  const address = page.url();
  await open(page, '/overview');
  await page.goto(address);
  await page.getByText('Waiting for the first request with the replacement').waitFor();
  await screenshot(page, 'key-rotation');
  await fetch(data.hook, { method: 'POST', body: key });
  await page.getByText('The replacement is in use, and no online machine uses the old key.').waitFor({ timeout: 90_000 });
  await page.getByRole('button', { name: 'Revoke', exact: false }).last().click();
  const confirm = page.getByRole('dialog');
  await confirm.getByRole('textbox').fill('fleet');
  await confirm.getByRole('button', { name: 'Revoke key' }).click();
  await confirm.waitFor({ state: 'detached' });
  await open(page, '/settings/keys');
  const keys = await page.getByRole('row').filter({ hasText: 'fleet' }).count();
  if (keys !== 1) throw new Error(`${keys} keys after the rotation, want 1`);
};
