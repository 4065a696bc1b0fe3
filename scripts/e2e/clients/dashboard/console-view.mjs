// Opens the live view with the link of the dashboard, signs in on the way, returns to the session and ends it.
export default async ({ data, newUser, settled, screenshot }) => {
  const page = await newUser({ viewport: { width: 390, height: 844 } });
  await page.goto(data.view);
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/browsers\/[0-9a-f-]{36}\/view$/);
  await page.goto(data.details);
  await page.getByLabel('Worker key').fill(data.workerKey);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).last().click();
  await page.getByRole('dialog').getByText('Ended', { exact: true }).first().waitFor();
  await page.keyboard.press('Escape');
  await page.evaluate(() => (location.hash = '/sessions?status=all'));
  await settled(page);
  await page.getByText('Ended', { exact: true }).first().waitFor();
  if ((await page.getByText('Killed').count()) > 0) throw new Error('an ordinary end is called killed');
  await screenshot(page, 'console-ended-390');
};
