// Faults while a form is filled in: what was typed stays, and the page says what to do.
export default async ({ base, data, newUser, open, settled, signIn, screenshot }) => {
  const page = await newUser();
  await signIn(page, data.user);

  const fill = async (name) => {
    await open(page, '/profiles/new');
    await page.getByLabel('Name', { exact: true }).first().fill(name);
    await page.getByLabel('Browser version').fill(String(data.version));
  };
  const save = () => page.getByRole('button', { name: 'Create profile' }).click();
  const requireName = async (name) => {
    const value = await page.getByLabel('Name', { exact: true }).first().inputValue();
    if (value !== name) throw new Error(`the name is ${value}, want ${name}`);
  };

  // The API is away: an outage, then no connection.
  await fill('Outage');
  await page.route('**/v1/profiles', (route) => route.fulfill({ status: 503, json: { success: false, error: { code: 'EXTERNAL_SERVICE_ERROR', message: 'The database is not available. Try again later.' } } }));
  await save();
  await page.getByText('The database is not available.').waitFor();
  await page.unroute('**/v1/profiles');
  await page.route('**/v1/**', (route) => route.abort());
  await save();
  await page.getByText('cannot be reached').first().waitFor();
  await requireName('Outage');
  await screenshot(page, 'fault-unreachable');
  await page.unroute('**/v1/**');
  await save();
  await page.waitForURL(/\/profiles\/[0-9a-f-]{36}$/);

  // A slow network shows that the page loads, and then the data.
  await page.route('**/v1/profiles?*', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await route.continue();
  });
  await page.goto(`${base}/profiles`);
  await page.getByRole('status', { name: 'Loading' }).first().waitFor();
  await page.getByRole('cell', { name: 'Outage' }).first().waitFor();
  await page.unroute('**/v1/profiles?*');

  // The session ends in the middle of a form: the user signs in over the page and saves.
  await fill('After the session');
  await page.context().clearCookies();
  await save();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Sign in again').first().waitFor();
  await screenshot(page, 'fault-session-ended');
  await dialog.getByLabel('Password', { exact: true }).fill(data.user.password);
  await dialog.getByRole('button', { name: 'Sign in', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await requireName('After the session');
  await save();
  await page.waitForURL(/\/profiles\/[0-9a-f-]{36}$/);

  // Another tab activates the other organization: a form of this tab is not saved there.
  await fill('Only here');
  const other = await page.context().newPage();
  await other.goto(`${base}/overview`);
  await settled(other);
  const here = await other.getByRole('button', { name: /^Organization: / }).getAttribute('aria-label');
  await other.getByRole('button', { name: /^Organization: / }).click();
  await other.getByRole('menuitem').first().click();
  await other.getByRole('button', { name: /^Organization: / }).filter({ hasNotText: here.split(': ')[1] }).waitFor();
  await page.bringToFront();
  const notice = page.getByRole('dialog');
  await notice.getByText('Another tab switched to').first().waitFor();
  await screenshot(page, 'fault-other-tab');
  await notice.getByRole('button', { name: /^Switch back to/ }).click();
  await notice.waitFor({ state: 'detached' });
  await requireName('Only here');
  await save();
  await page.waitForURL(/\/profiles\/[0-9a-f-]{36}$/);
};
