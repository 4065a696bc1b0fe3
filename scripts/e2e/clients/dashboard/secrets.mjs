// Creates, changes and deletes a secret. A stored password is on no page.
export default async ({ data, newUser, open, signIn, findings, screenshot }) => {
  const page = await newUser();
  await signIn(page, data.user);
  await open(page, '/settings/secrets');
  await page.getByText('No secrets').waitFor();
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Create secret' }).click();
  await page.keyboard.type('shop-login'); // the first field has the focus
  await dialog.getByLabel('User name').fill('robot@example.com');
  await dialog.getByLabel('Password', { exact: false }).first().fill(data.password);
  await dialog.getByLabel('TOTP seed', { exact: false }).first().fill('JBSWY3DPEHPK3PXP');
  await dialog.getByLabel('Allowed origins').fill('http://shop.example.com');
  await dialog.getByRole('button', { name: 'Create secret' }).click();
  await dialog.getByText('https, or a loopback host').waitFor();
  await dialog.getByLabel('Allowed origins').fill('https://shop.example.com\nhttps://*.example.org');
  await dialog.getByLabel('Allowed profiles').selectOption('some');
  await dialog.getByRole('checkbox').first().check();
  const found = await findings(page);
  await screenshot(page, 'secret-dialog');
  await dialog.getByRole('button', { name: 'Create secret' }).click();
  await dialog.waitFor({ state: 'detached' });
  const row = page.getByRole('row').filter({ hasText: 'shop-login' });
  await row.getByText('1 selected').waitFor();
  await screenshot(page, 'secrets');

  await row.getByRole('button', { name: /actions/i }).click();
  await page.getByRole('menuitem', { name: 'Change' }).click();
  await dialog.getByText('Leave empty to keep').first().waitFor();
  await dialog.getByLabel('Remove the stored TOTP seed').check();
  if ((await page.content()).includes(data.password)) throw new Error('the page contains the password');
  await dialog.getByRole('button', { name: 'Save changes' }).click();
  await dialog.waitFor({ state: 'detached' });
  await row.getByText('TOTP seed').waitFor({ state: 'detached' });
  await row.getByText('Password').waitFor();

  await row.getByRole('button', { name: /actions/i }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await dialog.getByRole('textbox').fill('shop-login');
  await dialog.getByRole('button', { name: 'Delete secret' }).click();
  await page.getByText('No secrets').waitFor();
  await open(page, '/audit-log');
  await page.getByText('updated the secret "shop-login"').waitFor();
  return found;
};
