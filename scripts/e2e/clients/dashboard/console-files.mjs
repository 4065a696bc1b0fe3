// Launches a headless shell that keeps its files in the console, saves a file of it while it runs and after its end.
// Returns the findings of axe and of the scenario.
export default async ({ base, data, newUser, settled, findings, overflow, screenshot }) => {
  const found = [];
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const page = await newUser({ colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
    const expect = (ok, text) => ok || found.push(`${text}, ${scheme} ${width}`);
    const check = async (name) => {
      await screenshot(page, `files-${name}-${scheme}-${width}`);
      for (const finding of await findings(page)) expect(false, `${name}: ${finding}`);
      expect((await overflow(page)) <= 0, `${name}: the page is wider than the screen`);
    };
    await page.addInitScript(() => {
      const create = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        window.saved = blob.text();
        return create.call(URL, blob);
      };
    });
    await page.goto(`${base}/#/launch?profileId=${data.profileId}`);
    await page.getByLabel('Worker key').fill(data.workerKey);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByLabel('Engine').selectOption('headless-shell');
    await page.getByLabel('Headless', { exact: true }).uncheck();
    await page.getByText('The headless shell has no window.').waitFor();
    await page.getByLabel('Headless', { exact: true }).check();
    await page.getByText('More options').click();
    await page.getByLabel('Keep files').check();
    await settled(page);
    await check('launch');
    await page.getByRole('button', { name: /^Launch/ }).last().click();
    const drawer = page.getByRole('dialog', { name: 'With files' });
    await drawer.getByText(/Chromium \d+, headless shell/).waitFor({ timeout: 60_000 });
    await drawer.getByText('The browser has no downloads and no uploads.').waitFor();
    const session = /sessions\/([0-9a-f-]{36})/.exec(page.url())[1];

    const headers = { 'X-API-Key': data.workerKey };
    const { data: { launchId } } = await (await fetch(`${base}/sessions/${session}`, { headers })).json();
    const stored = await fetch(`${base}/browsers/${launchId}/files/report.txt`, { method: 'PUT', headers, body: 'the report' });
    if (!stored.ok) throw new Error(`store the file: ${stored.status}`);
    const save = async () => {
      const button = drawer.getByRole('button', { name: 'Save report.txt' });
      await button.waitFor({ timeout: 30_000 }); // the list is loaded again every ten seconds
      const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
      const content = await page.evaluate(() => window.saved);
      expect(content === 'the report', `the file contains ${JSON.stringify(content)}`);
      expect(download.suggestedFilename() === 'report.txt', `the file is named ${download.suggestedFilename()}`);
    };
    await save();
    await settled(page);
    await check('running');
    await drawer.getByRole('button', { name: 'End session' }).click();
    await page.getByRole('dialog', { name: /^End the session/ }).getByRole('button', { name: 'End session' }).click();
    await drawer.getByText('Ended by request').first().waitFor();
    await save();
    const [archive] = await Promise.all([page.waitForEvent('download'), drawer.getByRole('button', { name: 'Save all as an archive' }).click()]);
    expect(archive.suggestedFilename().endsWith('-files.zip'), `the archive is named ${archive.suggestedFilename()}`);
    await settled(page);
    await check('ended');
    await page.context().close();
  }
  return found;
};
