// node viewerlink.cjs MODULE CHROMIUM LINK PICTURE TITLE FILE TRACE... opens a link to the trace viewer, selects the last action with this
// title, and prints what the viewer shows and what has run. FILE is a file of the trace, which is opened as a document. The viewer must not
// load the other TRACEs.
const problems = [];
const [, , module_, executablePath, link, picture, title, file, ...traces] = process.argv;

async function main() {
  const browser = await require(module_).chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const result = { problems, requests: [] };
  context.on('console', message => ['error', 'warning'].includes(message.type()) && problems.push(message.text()));
  context.on('weberror', error => problems.push(String(error.error())));
  context.on('request', request => result.requests.push(request.url()));
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.goto(link);
  const actions = page.locator('.action-title');
  const failure = page.locator('.notice, .empty, form, .processing-error');
  await actions.first().or(failure.first()).waitFor();
  result.url = page.url();
  result.text = await page.locator('body').innerText();
  result.actions = (await actions.allInnerTexts()).map(text => text.replace(/\s+/g, ' ').trim());
  if (result.actions.length) {
    await actions.filter({ hasText: title }).last().click();
    await page.getByRole('tab', { name: 'After' }).click();
    const shown = page.locator('iframe.snapshot-visible').first().contentFrame();
    await shown.locator('#done').waitFor();
    await page.waitForTimeout(500); // what a page would run, for example after its load
    result.snapshot = await shown.locator('body').innerText();
    result.width = await shown.locator('#picture').evaluate(picture => picture.naturalWidth);
    result.visible = await shown.locator('#done').evaluate(e => getComputedStyle(e).visibility);
    result.frame = await shown.frameLocator('#frame').locator('body').innerText({ timeout: 5000 }).catch(String);
    for (const id of ['link', 'submit', 'top']) await shown.locator(`#owned-${id}`).evaluateAll(all => all.forEach(e => e.click()));
    await page.screenshot({ path: picture });
    await page.getByRole('tab', { name: 'Network' }).click();
    await page.getByText('order', { exact: true }).first().waitFor();
    const opened = context.waitForEvent('page');
    const address = new URL(`${file}${new URL(page.url()).search}&dct=text/html`, page.url()).href;
    await page.evaluate(address => { open(address) }, address);
    await (await opened).waitForLoadState();
    await page.waitForTimeout(500);
    result.owned = await page.evaluate(() => [window.owned, localStorage.owned, document.title].join(' '));
    for (const trace of traces) {
      await page.goto(new URL(`index.html?trace=${encodeURIComponent(new URL(trace, page.url()))}`, page.url()).href);
      await page.getByText('Could not load trace').waitFor();
    }
  }
  await browser.close();
  console.log(JSON.stringify(result));
}

main().then(() => process.exit(), error => { console.error(error, problems); process.exit(1) });
