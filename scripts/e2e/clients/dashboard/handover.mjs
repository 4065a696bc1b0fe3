// Hands a browser from Playwright to a person, twice: the person sees the reason in the console, opens the live view
// from there and selects Done. Returns the outcomes, and the findings of axe.
import { chromium } from 'playwright-core';

export default async ({ base, data, newUser, settled, findings, overflow, screenshot }) => {
  const automation = await chromium.connectOverCDP(data.automation);
  const page = await automation.contexts()[0].newPage();
  const cdp = await page.context().newCDPSession(page);
  const found = [], outcomes = [];
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const check = async (shown, name) => {
      await screenshot(shown, `handover-${name}-${scheme}-${width}`);
      found.push(...(await findings(shown)).map((f) => `${name} ${scheme} ${width}: ${f}`));
      if ((await overflow(shown)) > 0) found.push(`${name} ${scheme} ${width}: the page is wider than the screen`);
    };
    await page.setContent(`<button onclick="document.title = 'clicked ${scheme}'">Pay</button>`);
    const human = cdp.send('Svc.requestHuman', { reason: data.reason, timeoutSeconds: 120 });
    let clicked = false;
    const click = page.click('button').then(() => (clicked = true));

    const user = await newUser({ colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
    await user.goto(`${base}/`);
    await user.getByLabel('Worker key').fill(data.workerKey);
    await user.getByRole('button', { name: 'Sign in' }).click();
    await user.getByText('Needs a person').first().waitFor();
    await user.getByText(data.reason).first().waitFor();
    await user.getByText(/^Times out in \d+ (min|sec)\.$/).first().waitFor();
    await settled(user);
    await check(user, 'wall');
    await user.evaluate(() => (location.hash = '/?view=list'));
    await user.getByRole('table').getByText(data.reason).waitFor();
    await check(user, 'list');
    await user.evaluate(() => (location.hash = '/'));
    const opened = user.context().waitForEvent('page');
    await user.getByRole('button', { name: 'Open the live view' }).first().click();
    const view = await opened;
    const done = view.getByRole('button', { name: 'Done' });
    await done.waitFor();
    await view.getByText(data.reason).waitFor();
    await view.locator('body[data-state=live]').waitFor();
    await check(view, 'view');
    if (clicked) found.push('the click was not held');
    await done.click();
    const { outcome, seconds } = await human;
    await click;
    await done.waitFor({ state: 'hidden' });
    await user.getByText('Needs a person').first().waitFor({ state: 'hidden' });
    outcomes.push({ outcome, seconds, title: await page.title() });
    await user.context().close();
  }
  await page.close();
  await automation.close(); // disconnects
  return { found, outcomes };
};
