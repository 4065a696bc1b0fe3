// Edits the network rules of the organization and of a profile, and tests requests before they are saved.
export default async ({ base, data, newUser, open, signIn, findings, overflow, screenshot }) => {
  const found = [];
  const check = async (page, name) => {
    await screenshot(page, name);
    found.push(...(await findings(page)).map((f) => `${name}: ${f}`));
    if ((await overflow(page)) > 0) found.push(`${name}: the page is wider than the screen`);
  };
  const page = await newUser({ reducedMotion: 'reduce' });
  await signIn(page, data.user);
  const get = (path) => page.evaluate(async (p) => (await (await fetch(p)).json()).data, `${base}/v1${path}`);
  const tester = page.getByRole('group', { name: 'Test a request' });
  const decides = async (url, decision, reason) => {
    await tester.getByLabel('URL').fill(url);
    await tester.getByLabel('URL').press('Enter');
    await tester.getByText(decision, { exact: true }).waitFor();
    await tester.getByText(reason, { exact: true }).waitFor();
  };

  await open(page, '/settings/network');
  await decides('example.com', 'Allowed', 'No rule concerns this request.');
  await page.getByLabel('Pages that may be opened').selectOption('list');
  await page.getByLabel('Allowed pages').fill('*.example.com\na b');
  await page.getByLabel('Denied pages').fill('https://www.example.com/admin*');
  await page.getByLabel('Denied hosts').fill('10.0.0.0/8');
  await page.getByRole('button', { name: 'Save rules' }).click();
  await page.getByText('Entry 2: must be a host').waitFor(); // an error of the server, at its field
  await check(page, 'network-rules-invalid');
  await page.getByLabel('Allowed pages').fill('*.example.com');
  await decides('https://www.example.com/admin/users', 'Denied', 'By navigate.deny: https://www.example.com/admin*, a rule of the organization.');
  await decides('example.org', 'Denied', 'By navigate.allow of the organization: no pattern of the list matches.');
  await tester.getByLabel('Kind').selectOption('image');
  await decides('http://10.1.2.3/a.png', 'Denied', 'By connect.deny: 10.0.0.0/8, a rule of the organization.');
  await page.getByLabel('Denied hosts').fill(''); // the answer was about other rules
  await tester.getByText('Denied', { exact: true }).waitFor({ state: 'detached' });
  await page.getByLabel('Denied hosts').fill('10.0.0.0/8');
  await page.getByLabel('Maximum traffic in megabytes').fill('0.5');
  await page.getByLabel('Uploads').selectOption('deny');
  await page.getByLabel('Ads', { exact: true }).check();
  await page.getByRole('button', { name: 'Save rules' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  const wanted = {
    navigate: { allow: ['*.example.com'], deny: ['https://www.example.com/admin*'] }, connect: { deny: ['10.0.0.0/8'] },
    block: ['ads'], uploads: 'deny', maxBytes: 500000,
  };
  const stored = (await get('/organizations')).items[0].network;
  if (canonical(stored) !== canonical(wanted)) throw new Error(`stored ${canonical(stored)}`);
  await check(page, 'network-rules-light-1440');

  // A profile can only narrow them.
  await open(page, `/profiles/${data.profile}`);
  await page.getByLabel('Pages that may be opened').selectOption('web');
  await page.getByLabel('Pages that need a person').fill('pay.example.com');
  await decides('pay.example.com', 'A person decides', 'By navigate.ask: pay.example.com, a rule of the profile.');
  await decides('example.org', 'Denied', 'By navigate.allow of the organization: no pattern of the list matches.');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('All changes are saved').waitFor();
  const profile = await get(`/profiles/${data.profile}`);
  if (canonical(profile.network) !== canonical({ navigate: { ask: ['pay.example.com'] } })) throw new Error(`stored ${canonical(profile.network)}`);
  await check(page, 'network-rules-profile');
  await page.getByLabel('Pages that may be opened').selectOption('');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('All changes are saved').waitFor();
  if ((await get(`/profiles/${data.profile}`)).network !== null) throw new Error('the rules of the profile are not removed');

  const phone = await newUser({ colorScheme: 'dark', viewport: { width: 390, height: 900 }, reducedMotion: 'reduce' });
  await signIn(phone, data.user);
  await open(phone, '/settings/network');
  if ((await phone.getByLabel('Allowed pages').inputValue()) !== '*.example.com') throw new Error('the stored rules are not shown');
  await check(phone, 'network-rules-dark-390');
  return found;
};

// canonical returns a text that does not depend on the order of keys.
const canonical = (value) => JSON.stringify(value, (_, v) => (v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v));
