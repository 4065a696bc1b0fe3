// Accepts an invitation with a new account. The member sees neither billing nor the audit log, and loses the pages when
// the owner removes the member.
export default async ({ base, data, newUser, open, settled, signIn, screenshot }) => {
  const member = await newUser();
  await member.goto(`${base}/account/accept-invitation#token=${data.token}`);
  await member.getByText('I am new').click();
  if (member.url().includes(data.token)) throw new Error('the address still contains the token');
  await member.getByLabel('Your name').fill('Grace');
  await member.getByLabel('E-mail address').fill(data.email);
  await member.getByLabel('Password', { exact: true }).fill(data.password);
  await member.getByRole('button', { name: 'Create account and join' }).click();
  await member.getByText('You joined').waitFor();
  await open(member, '/overview');
  const navigation = member.getByRole('navigation', { name: 'Pages' });
  const links = await navigation.getByRole('link').allInnerTexts();
  if (links.some((l) => /billing|audit/i.test(l))) throw new Error(`a member sees ${links}`);

  // The pages by their address explain the role, without a request that is refused.
  const refused = [];
  member.on('response', (r) => r.status() === 403 && refused.push(r.url()));
  for (const path of ['/billing', '/audit-log', '/settings/keys']) {
    await open(member, path);
    await member.getByText(/owner/i).first().waitFor();
  }
  if (refused.length) throw new Error(`the pages of a member send refused requests: ${refused}`);
  await screenshot(member, 'billing-member');

  // A role that was taken away meanwhile: the next action is refused with a message, and the typed text stays.
  const owner = await newUser();
  await signIn(owner, data.owner);
  await open(member, '/profiles/new');
  await member.getByLabel('Name', { exact: true }).first().fill('Kept text');
  await member.getByLabel('Browser version').fill('156');
  await open(owner, '/settings/members');
  const row = owner.getByRole('row').filter({ hasText: data.email });
  await row.getByRole('button', { name: /actions/i }).click();
  await owner.getByRole('menuitem', { name: 'Remove' }).click();
  const dialog = owner.getByRole('dialog');
  const required = await dialog.locator('strong').first().innerText();
  await dialog.getByRole('textbox').fill(required);
  await dialog.getByRole('button', { name: 'Remove' }).last().click();
  await dialog.waitFor({ state: 'detached' });
  await member.getByRole('button', { name: 'Create profile' }).click();
  await member.getByRole('alert').first().waitFor();
  if ((await member.getByLabel('Name', { exact: true }).first().inputValue()) !== 'Kept text') throw new Error('the typed text is lost');
  await member.reload();
  await settled(member);
  await member.getByRole('heading', { name: 'Create an organization' }).waitFor();
};
