// Invites an address as a member. The cloud has no mail server: returns the token of the link that the dialog shows.
export default async ({ data, newUser, open, signIn }) => {
  const page = await newUser();
  await signIn(page, data.owner);
  await open(page, '/settings/members');
  await page.getByRole('button', { name: 'Invite' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('E-mail address').fill(data.email);
  await dialog.getByRole('button', { name: /invit/i }).click();
  const link = await dialog.locator('pre', { hasText: 'accept-invitation#token=' }).innerText();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText(data.email).first().waitFor();
  return link.split('#token=')[1];
};
