// Makes the older of two versions of a profile's data the current one, then deletes both. Returns the findings of axe.
export default async ({ data, newUser, open, settled, signIn, findings, overflow, screenshot }) => {
  const found = [];
  const check = async (page, name) => {
    await screenshot(page, name);
    found.push(...(await findings(page)).map((f) => `${name}: ${f}`));
    if ((await overflow(page)) > 0) found.push(`${name}: the page is wider than the screen`);
  };
  const path = `/profiles/${data.profile}`;
  const phone = await newUser({ colorScheme: 'dark', viewport: { width: 390, height: 900 }, reducedMotion: 'reduce' });
  await signIn(phone, data.user);
  await open(phone, path);
  await phone.getByText(data.machine).first().waitFor();
  await check(phone, 'profile-versions-phone');

  const page = await newUser({ reducedMotion: 'reduce' });
  await signIn(page, data.user);
  await open(page, path);
  const rows = page.getByRole('table', { name: 'Saved browser data' }).getByRole('row').filter({ hasText: data.machine });
  const expect = async (count, current) => {
    await page.waitForFunction(([n, i]) => {
      const all = [...document.querySelectorAll('table[aria-label="Saved browser data"] tbody tr')];
      return all.length === n && all.every((row, at) => row.textContent.includes('Current') === (at === i));
    }, [count, current]);
  };
  const act = async (row, item, button) => {
    await rows.nth(row).getByRole('button', { name: /actions/i }).click();
    await page.getByRole('menuitem', { name: item }).click();
    await check(page, `profile-versions-${item}`);
    await page.getByRole('dialog').getByRole('button', { name: button }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  };
  await expect(2, 0);
  await rows.nth(0).getByText(/MB/).first().waitFor();
  await check(page, 'profile-versions');
  await act(1, 'Make current', 'Make current');
  await expect(2, 1);
  await act(0, 'Delete', 'Delete version');
  await expect(1, 0);
  await act(0, 'Delete', 'Delete version');
  await page.getByText('No saved versions').waitFor();
  await settled(page);
  await check(page, 'profile-versions-none');
  return found;
};
