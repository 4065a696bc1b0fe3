// Creates a profile with every field, exports it, deletes it, imports it and compares. Then two tabs edit it.
export default async ({ base, data, newUser, open, settled, signIn, screenshot }) => {
  const page = await newUser();
  // A download of a remote browser is on the host of the worker, so the test reads what the page saves.
  await page.addInitScript(() => {
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      window.exported = blob.text();
      return create(blob);
    };
  });
  await signIn(page, data.user);
  await open(page, '/profiles');
  await page.getByText('No profiles yet').waitFor();

  // The API creates the profile with all fields, the form shows and changes them.
  const wanted = {
    name: 'Round trip', notes: 'With every field', tags: ['one', 'two'], browserVersion: data.version, os: 'windows',
    windowsVersion: '11', osArch: 'x86', locale: 'de-DE', timezoneId: 'Europe/Berlin', colorScheme: 'dark',
    viewport: { width: 1200, height: 700 }, screen: { width: 1920, height: 1080 }, deviceScaleFactor: 2, isMobile: false,
    hasTouch: true, geolocation: { latitude: 52.5, longitude: 13.4, accuracy: 10 }, permissions: ['geolocation'],
    extraHTTPHeaders: { 'X-Test': 'yes' }, ignoreHTTPSErrors: true, proxy: { server: 'http://proxy.example.com:8080', username: 'ada' },
    startUrls: ['https://example.com/'], idleTimeoutSeconds: 600, maxDurationSeconds: 0, persist: true,
    network: { navigate: { allow: ['*.example.com'], deny: ['https://www.example.com/admin*'] }, connect: { deny: ['10.0.0.0/8'] }, block: ['font'], maxBytes: 500000000 },
    metadata: { team: 'checkout' },
  };
  const api = (method, path, body) => page.evaluate(async ([m, p, b]) => {
    const response = await fetch(p, { method: m, headers: b ? { 'Content-Type': 'application/json' } : {}, body: b && JSON.stringify(b) });
    return { status: response.status, body: await response.json() };
  }, [method, `${base}/v1${path}`, body]);
  const created = await api('POST', '/profiles', wanted);
  if (created.status !== 201) throw new Error(JSON.stringify(created));
  await open(page, '/profiles');

  await page.getByRole('checkbox', { name: 'Select Round trip' }).check();
  await page.getByRole('button', { name: 'Export', exact: true }).last().click();
  const file = await JSON.parse(await page.evaluate(() => window.exported));
  if (JSON.stringify(file).includes('"id"')) throw new Error('the export has ids');

  await page.getByRole('row').filter({ hasText: 'Round trip' }).getByRole('button', { name: /actions/i }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill('Round trip');
  await page.getByRole('dialog').getByRole('button', { name: /delete/i }).last().click();
  await page.getByText('No profiles yet').waitFor();

  await importFile(page, { ...file, profiles: [...file.profiles, { name: '', browserVersion: 'x' }] });
  await page.getByRole('cell', { name: 'Round trip' }).first().waitFor();
  const list = await api('GET', '/profiles');
  const again = list.body.data.items.find((p) => p.name === 'Round trip');
  for (const [field, value] of Object.entries(wanted)) {
    const got = field === 'proxy' ? { server: again.proxy.server, username: again.proxy.username } : again[field];
    if (canonical(got) !== canonical(value)) throw new Error(`${field} is ${canonical(got)} after the round trip, want ${canonical(value)}`);
  }

  // Two tabs edit the same profile: the second learns about the change of the first, and what it typed stays.
  const other = await page.context().newPage();
  await open(page, `/profiles/${again.id}`);
  await other.goto(`${base}/profiles/${again.id}`);
  await settled(other);
  await page.getByLabel('Name', { exact: true }).first().fill('Renamed here');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('heading', { level: 1, name: 'Renamed here' }).waitFor();
  await other.getByRole('textbox', { name: 'Notes' }).fill('Changed there');
  await other.getByRole('button', { name: 'Save changes' }).click();
  await other.getByText(/changed/i).first().waitFor();
  if ((await other.getByRole('textbox', { name: 'Notes' }).inputValue()) !== 'Changed there') throw new Error('the typed text is lost');
  await screenshot(other, 'profile-conflict');

  // The organization has no machine, so Launch says what to do.
  await open(page, `/profiles/${again.id}`);
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByRole('dialog').getByText('set PUBLIC_URL of a worker').waitFor();
  await screenshot(page, 'profile-launch-none');
  await page.keyboard.press('Escape');

  // A client certificate is added with files, kept by another change, and removed.
  await open(page, `/profiles/${again.id}`);
  const certificates = page.getByRole('group', { name: /Client certificates/ });
  const pem = (name, text) => ({ name, mimeType: 'application/x-pem-file', buffer: Buffer.from(text) });
  await certificates.getByLabel('Origin').fill('https://intranet.example');
  await certificates.getByLabel('Files').setInputFiles([pem('robot.crt', data.certificate), pem('robot.key', data.key)]);
  await certificates.getByLabel('Passphrase').fill('wrong');
  const save = async (answer) => {
    const saved = page.waitForResponse((response) => response.request().method() === 'PATCH');
    await page.getByRole('button', { name: 'Save changes' }).click();
    if ((await saved).status() !== answer) throw new Error(`the change of the certificates got ${(await saved).status()}, want ${answer}`);
  };
  await certificates.getByRole('button', { name: 'Add certificate' }).click();
  await save(400);
  await certificates.getByText('Entry 1: does not decrypt the key').waitFor();
  await certificates.getByRole('button', { name: 'Remove' }).click();
  await certificates.getByLabel('Origin').fill('https://intranet.example');
  await certificates.getByLabel('Files').setInputFiles([pem('robot.crt', data.certificate), pem('robot.key', data.key)]);
  await certificates.getByLabel('Passphrase').fill(data.passphrase);
  await certificates.getByRole('button', { name: 'Add certificate' }).click();
  await save(200);
  await certificates.getByRole('row', { name: /CN=robot/ }).waitFor();
  await screenshot(page, 'profile-certificates');
  await page.getByRole('textbox', { name: 'Notes' }).fill('With a certificate');
  await save(200);
  const stored = async () => (await api('GET', `/profiles/${again.id}`)).body.data.clientCertificates;
  if ((await stored())[0]?.subject !== 'CN=robot') throw new Error('another change lost the certificate');
  await certificates.getByRole('button', { name: 'Remove' }).click();
  await save(200);
  if ((await stored()).length !== 0) throw new Error('the removed certificate is still stored');

  // An invalid value is refused at its field, before a request is sent.
  await open(page, `/profiles/${again.id}`);
  await page.getByLabel('Browser version').fill('0');
  await page.getByRole('button', { name: 'Save changes' }).click();
  if ((await page.locator('[aria-invalid=true]').count()) === 0) throw new Error('an invalid version is not marked');
  await page.getByLabel('Browser version').fill(String(data.version));
  // An error of the server lands at its field.
  await page.getByRole('combobox', { name: 'Time zone' }).fill('Mars/Olympus');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.locator('[aria-invalid=true]').first().waitFor();
};

const importFile = async (page, content) => {
  await page.getByRole('button', { name: /import/i }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.locator('input[type=file]').setInputFiles({ name: 'profiles.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(content)) });
  await dialog.getByText('Round trip').first().waitFor();
  await dialog.getByRole('button', { name: /import/i }).last().click();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
};

// canonical returns a text that does not depend on the order of keys.
const canonical = (value) => JSON.stringify(value, (_, v) => (v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v));
