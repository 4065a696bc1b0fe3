// Signs in to the console of a worker with a cookie, sees the host name, launches a profile, with network rules, sees its thumbnail, opens the
// live view, and signs out. Returns the id of the session.
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';

export default async ({ base, data, newUser, settled, screenshot }) => {
  const page = await newUser();
  await page.goto(`${base}/`);
  await page.getByLabel('Worker key').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The worker refuses this key.').waitFor();
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.getByLabel(/^Keep me signed in/).check();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  await page.reload();
  await settled(page);
  const stored = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]));
  if (stored.includes(data.workerKey) || stored.includes('svc_console')) throw new Error(`scripts can read the credential: ${stored}`);

  await page.keyboard.press('g');
  await page.keyboard.press('m');
  await page.getByText(`${hostname()} (console), running for`).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('l');
  await page.goto(data.launch);
  const chosen = await page.getByLabel('Profile id').inputValue();
  if (chosen !== data.profileId) throw new Error(`the link of the dashboard selects the profile ${chosen}`);
  // The URL and Record are among the first fields, and Enter launches.
  const fields = await page.locator('form [name]').evaluateAll((all) => all.map((field) => field.name));
  if (!['browser.startUrls', 'browser.record'].every((name) => fields.indexOf(name) < 5)) throw new Error(`the form begins with ${fields.slice(0, 6)}`);
  const url = page.locator('[name="browser.startUrls"]');
  await url.fill('about:blank');
  await page.getByLabel('Record', { exact: true }).check();
  await screenshot(page, 'console-launch-form');
  await page.getByText('More options').click();
  await page.getByLabel('Pages that may be opened').selectOption('All web pages, except those below');
  await page.getByLabel('Denied pages').fill('denied.example');
  await page.getByLabel('Images').check();
  const hosts = page.getByLabel('Hosts that may be connected to');
  await hosts.selectOption('Only the hosts below');
  await page.getByText(/"connect": \{\s*"allow": \[\]\s*\}/).first().waitFor(); // an empty list allows nothing
  await screenshot(page, 'console-launch-rules');
  await hosts.selectOption('All, except denied hosts');
  const [request] = await Promise.all([page.waitForRequest((r) => r.method() === 'POST' && r.url() === `${base}/sessions/profile`), url.press('Enter')]);
  const { network } = request.postDataJSON().browser;
  const rules = { navigate: { deny: ['denied.example'] }, block: ['image'] };
  if (!isDeepStrictEqual(network, rules)) throw new Error(`the rules are ${JSON.stringify(network)}`);
  const drawer = page.getByRole('dialog');
  await drawer.getByText('First profile').first().waitFor({ timeout: 60_000 });
  const session = /sessions\/([0-9a-f-]{36})/.exec(page.url())[1];
  await page.keyboard.press('Escape');
  await page.locator('img[src^="blob:"]').first().waitFor({ timeout: 30_000 });
  await screenshot(page, 'console-wall');

  // The last minute is counted down, and the session can be extended.
  const extended = await page.evaluate(async (address) => {
    const { data } = await (await fetch(address)).json();
    const maxDurationSeconds = Math.ceil((Date.now() - Date.parse(data.startedAt)) / 1000) + 50;
    const headers = { 'Content-Type': 'application/json' };
    return (await fetch(address, { method: 'PATCH', headers, body: JSON.stringify({ maxDurationSeconds }) })).status;
  }, `${base}/sessions/${session}`);
  if (extended !== 200) throw new Error(`the update was answered with ${extended}`);
  const countdown = page.getByText(/^Ends in \d+ s: the maximum duration is reached/);
  await countdown.waitFor({ timeout: 30_000 });
  await screenshot(page, 'console-countdown');
  await page.getByRole('button', { name: 'Extend by 10 minutes: First profile' }).click();
  await countdown.waitFor({ state: 'hidden', timeout: 30_000 });

  const [view] = await Promise.all([page.context().waitForEvent('page'), page.getByRole('button', { name: 'View: First profile' }).click()]);
  await view.waitForURL(/\/browsers\/[0-9a-f-]{36}\/view$/); // without the token
  await view.close();
  await page.getByRole('button', { name: /^Menu/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('Worker key').waitFor();
  await page.reload();
  await page.getByLabel('Worker key').waitFor();
  return session;
};
