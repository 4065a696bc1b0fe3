// Sees a session on the page of the sessions, opens it and returns to the list.
export default async ({ base, data, newUser, open, signIn, screenshot }) => {
  const page = await newUser();
  await signIn(page, data);
  await open(page, '/sessions');
  await page.getByRole('cell', { name: 'First profile' }).first().click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('Browser started').waitFor();
  if (!page.url().startsWith(`${base}/sessions/`)) throw new Error(`the drawer has the address ${page.url()}`);
  await drawer.getByText(data.session).first().waitFor();
  await screenshot(page, 'session-drawer');
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
};
