// node viewer.cjs MODULE ENDPOINT TRACE PICTURE TITLE VALUE opens a trace in the viewer of Playwright, and prints what it shows of the
// last action with this title, after which a field has this value.
const [, , module_, endpoint, trace, picture, title, value] = process.argv;
const path = require('path');
const { startTraceViewerServer } = require(path.join(module_, 'lib/server'));

async function main() {
  const server = await startTraceViewerServer({ host: '127.0.0.1', port: 0 });
  const browser = await require(module_).chromium.connectOverCDP(endpoint);
  const page = await browser.contexts()[0].newPage();
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.goto(`${server.urlPrefix('precise')}/trace/index.html?trace=${encodeURIComponent(trace)}`);
  const actions = page.locator('.action-title');
  await actions.first().waitFor();
  const result = { actions: (await actions.allInnerTexts()).map(text => text.replace(/\s+/g, ' ').trim()) };
  await actions.filter({ hasText: title }).last().click();
  await page.getByRole('tab', { name: 'After' }).click();
  const shown = page.locator('.snapshot-container iframe:visible, iframe.snapshot-visible').first().contentFrame();
  const read = async () => {
    result.snapshot = await shown.locator('body').innerText({ timeout: 5000 });
    result.values = await shown.locator('input').evaluateAll(inputs => inputs.map(input => input.value));
  };
  for (const until = Date.now() + 20_000; !result.values?.includes(value) && Date.now() < until;) await read().catch(() => {}); // another snapshot is shown first
  await page.screenshot({ path: picture });
  await page.getByRole('tab', { name: 'Console' }).click();
  await page.locator('.console-tab').getByText('bought').first().waitFor();
  result.console = await page.locator('.console-tab').innerText();
  await page.getByRole('tab', { name: 'Network' }).click();
  await page.getByText('order', { exact: true }).first().waitFor();
  result.network = await page.locator('body').innerText();
  console.log(JSON.stringify(result));
}

main().then(() => process.exit(), error => { console.error(error); process.exit(1) });
