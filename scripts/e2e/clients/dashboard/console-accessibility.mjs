// Returns the findings of axe on the pages of the console, in light and dark, on a phone and on a desktop.
export default async ({ base, data, newUser, settled, findings, overflow, screenshot }) => {
  const found = [];
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const page = await newUser({ colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
    const check = async (name) => {
      await screenshot(page, `console-${name}-${scheme}-${width}`);
      found.push(...(await findings(page)).map((f) => `console ${name} ${scheme} ${width}: ${f}`));
      if ((await overflow(page)) > 0) found.push(`console ${name} ${scheme} ${width}: the page is wider than the screen`);
    };
    await page.goto(`${base}/`);
    await page.getByLabel('Worker key').waitFor();
    await check('sign-in');
    await page.getByLabel('Worker key').fill(data.workerKey);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
    for (const path of ['', 'launch', 'machine', `sessions/${data.session}`, 'no-such-page']) {
      await page.evaluate((hash) => (location.hash = hash), `/${path}`);
      await settled(page);
      await check(path.split('/')[0] || 'sessions');
    }
  }
  return found;
};
