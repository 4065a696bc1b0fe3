// Selects Launch at a profile, in the list and on its page. Returns the address of the worker's launch form, and the
// command of the page.
export default async ({ data, newUser, open, signIn, findings, screenshot }) => {
  const page = await newUser();
  await signIn(page, data);
  const link = page.getByRole('dialog').getByRole('link', { name: /^Launch on / });
  await open(page, '/profiles');
  await page.getByRole('button', { name: 'Actions for First profile' }).click();
  await page.getByRole('menuitem', { name: 'Launch' }).click();
  const address = await link.getAttribute('href');
  await page.keyboard.press('Escape');
  await open(page, `/profiles/${data.profileId}`);
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await link.waitFor();
  await screenshot(page, 'profile-launch');
  const command = await page.locator('pre').filter({ hasText: 'WORKER_URL' }).innerText();
  return { address, command, again: await link.getAttribute('href'), found: await findings(page) };
};
