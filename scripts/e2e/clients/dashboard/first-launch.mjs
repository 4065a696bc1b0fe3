// Signs up, creates an organization and a key, waits for the first worker and creates a profile. Returns its id.
export default async ({ base, data, newUser, settled, screenshot }) => {
  const page = await newUser();
  await page.goto(`${base}/sign-up`);
  await page.getByLabel('Your name').fill('Grace');
  await page.getByLabel('E-mail address').fill(data.email);
  await page.getByLabel('Password', { exact: true }).fill(data.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Create an organization' }).waitFor();
  await page.getByLabel('Name', { exact: true }).fill('Compilers');
  await page.getByRole('button', { name: 'Create organization' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await settled(page);
  await screenshot(page, 'overview-new');

  await page.keyboard.press('g');
  await page.keyboard.press('c');
  await page.getByRole('heading', { level: 1, name: 'Connect a worker' }).waitFor();
  await page.getByRole('button', { name: 'Create key' }).click();
  const command = page.locator('pre').filter({ hasText: 'go run ./worker' });
  await page.getByText('Key created').waitFor();
  if ((await page.getByText('Lowercase form').count()) > 0) throw new Error('the page shows the same key twice');
  await page.getByText('Source', { exact: true }).click();
  const key = /SVC_KEY=(svc_\w+)/.exec(await command.innerText())[1];
  await page.getByText('Waiting for your first worker').waitFor();
  await screenshot(page, 'connect-waiting');
  await fetch(data.hook, { method: 'POST', body: key });
  await page.getByText('is connected').waitFor({ timeout: 60_000 });
  const environment = await page.getByRole('region', { name: 'Environment' }).innerText();
  const [, worker, workerKey] = /^export SVC_WORKER=(\S+) SVC_API_KEY=(\S+)$/.exec(environment.trim());
  if (workerKey !== key) throw new Error('the environment does not have the key');
  if (!(await fetch(new URL('health', worker + '/'))).ok) throw new Error(`${worker} is not the worker`);
  for (const client of ['TypeScript', 'Python', 'Go', 'curl', 'Command line']) await page.getByRole('tab', { name: client }).click();
  await page.getByRole('region', { name: 'program' }).getByText('svc run').waitFor();
  await screenshot(page, 'connect-connected');

  // The steps that are done are collapsed. Without a mail server, no step asks for a verified address.
  await page.goto(`${base}/overview`);
  await page.getByText('2 of 4 done').waitFor();
  if (await page.getByText('Create an organization key').isVisible()) throw new Error('a step that is done is not collapsed');
  await page.getByText('2 steps are done').click();
  await page.getByText('Create an organization key').waitFor();
  await screenshot(page, 'overview-steps');

  await page.goto(`${base}/profiles/new`);
  await page.getByLabel('Name', { exact: true }).first().fill('First profile');
  await page.getByLabel('Browser version').fill(String(data.version));
  await page.getByRole('button', { name: 'Create profile' }).click();
  await page.waitForURL(/\/profiles\/[0-9a-f-]{36}$/);
  return page.url().split('/').at(-1);
};
