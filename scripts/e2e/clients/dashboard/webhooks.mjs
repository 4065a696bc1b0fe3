// Creates an endpoint with the keyboard, reads its deliveries, and changes, disables and deletes it. Returns the secret.
import { keyboard } from './keyboard.mjs';

export default async ({ data, newUser, open, signIn, findings, overflow, screenshot }) => {
  const page = await newUser({ reducedMotion: 'reduce' });
  await signIn(page, data.user);
  await open(page, '/settings/webhooks');
  await page.getByText('No endpoints').waitFor();
  const { found, press, choose, opens } = keyboard(page);
  const check = async (page, name) => {
    await screenshot(page, name);
    found.push(...(await findings(page)).map((f) => `${name}: ${f}`));
    if ((await overflow(page)) > 0) found.push(`${name}: the page is wider than the screen`);
  };
  const dialog = page.getByRole('dialog');
  const endpoints = page.getByRole('table', { name: 'Webhooks' });
  const deliveries = page.getByRole('table', { name: 'Deliveries' });
  const closed = () => dialog.waitFor({ state: 'detached' });

  await press('button', 'Create endpoint');
  await opens('Create endpoint', 'URL');
  await page.keyboard.type('hooks.example.com');
  await page.keyboard.press('Enter');
  await dialog.locator('[aria-invalid=true]').waitFor();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type(data.hook);
  await dialog.getByLabel('Description').fill('orders');
  await press('checkbox', 'session.ended: a session has ended');
  await check(page, 'webhook-dialog');
  await press('button', 'Create endpoint');
  await opens('Store the signing secret', 'I have stored the secret');
  const secret = (await dialog.locator('code').innerText()).trim();
  await check(page, 'webhook-secret');
  await press('checkbox', 'I have stored the secret');
  await press('button', 'Close');
  await endpoints.getByText('session.ended', { exact: true }).waitFor();
  if ((await page.content()).includes(secret)) throw new Error('the page contains the secret');
  const sendTest = (url) => choose(`Actions for ${url}`, 'Send a test event');
  await sendTest(data.hook);
  await deliveries.getByText('Delivered').waitFor();
  await check(page, 'webhooks-light-1440');

  // With the mouse: an endpoint that fails, and one with an address that is not public.
  const act = async (table, item) => {
    await table.getByRole('button', { name: /^Actions for / }).first().click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };
  const moveTo = async (url) => {
    await act(endpoints, 'Change');
    await dialog.getByLabel('URL').fill(url);
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await closed();
    await endpoints.getByText(url, { exact: true }).waitFor();
  };
  await act(endpoints, 'Change');
  await dialog.getByRole('checkbox', { checked: true }).uncheck();
  await dialog.getByRole('button', { name: 'Save changes' }).click();
  await closed();
  await endpoints.getByText('All events', { exact: true }).waitFor();
  await moveTo(`${data.hook}/failing`);
  await act(endpoints, 'Send a test event');
  await deliveries.getByText('503').waitFor();
  await endpoints.getByText('Failing', { exact: true }).waitFor();
  await page.getByText('Delivered', { exact: true }).last().waitFor();
  await page.getByRole('radio', { name: 'Failed' }).check();
  await page.getByText('No delivery has this state.').waitFor();
  await page.getByRole('radio', { name: 'Pending' }).check();
  await deliveries.getByText('503').waitFor();
  if ((await deliveries.getByRole('row').count()) !== 2) throw new Error('the filter shows other deliveries');
  await act(deliveries, 'Show');
  await dialog.getByText('endpointId').waitFor();
  await check(page, 'webhook-delivery');
  await page.keyboard.press('Escape');
  await moveTo(data.hook);
  await act(deliveries, 'Send again');
  await deliveries.waitFor({ state: 'detached' }); // none is pending
  await page.getByRole('radio', { name: 'All' }).check();
  await moveTo(data.unreachable);
  await act(endpoints, 'Send a test event');
  await deliveries.getByText(/WEBHOOK_ALLOWED_NETWORKS/).waitFor();
  await check(page, 'webhooks-not-public');

  const phone = await newUser({ colorScheme: 'dark', viewport: { width: 390, height: 900 }, reducedMotion: 'reduce' });
  await signIn(phone, data.user);
  await open(phone, `/settings/webhooks${new URL(page.url()).search}`);
  await phone.getByRole('table', { name: 'Deliveries' }).waitFor();
  await check(phone, 'webhooks-dark-390');

  await moveTo(data.hook);
  await act(endpoints, 'Replace the secret');
  await dialog.getByRole('button', { name: 'Replace the secret' }).click();
  await dialog.getByText('I have stored the secret').click();
  if ((await dialog.locator('code').innerText()).trim() === secret) throw new Error('the secret is not replaced');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await endpoints.getByText('The old secret signs until').waitFor();
  await act(endpoints, 'Disable');
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await endpoints.getByText('Disabled', { exact: true }).waitFor();
  await act(endpoints, 'Enable');
  await dialog.getByRole('button', { name: 'Enable' }).click();
  await endpoints.getByText('Disabled', { exact: true }).waitFor({ state: 'detached' });
  await act(endpoints, 'Delete');
  await dialog.getByRole('button', { name: 'Delete endpoint' }).click();
  await page.getByText('No endpoints').waitFor();
  return { found, secret };
};
