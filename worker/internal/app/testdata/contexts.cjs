// node contexts.cjs MODULE ENDPOINT DIR SITE PROXY uses the options of contexts and several connections, and prints what it got as JSON.
const [, , module_, endpoint, dir, site, proxy] = process.argv;
const { chromium } = require(module_);
const fs = require('fs'), path = require('path');
const result = {};
const cause = error => error.message.split('\n')[0];

async function main() {
  const browser = await chromium.connect(endpoint);
  const state = path.join(dir, 'state.json'), har = path.join(dir, 'requests.har');
  const first = await browser.newContext({ httpCredentials: { username: 'ada', password: 'secret' }, recordHar: { path: har } });
  const page = await first.newPage();
  result.credentials = await (await page.goto(site + 'protected')).text();
  await page.goto(site);
  await page.evaluate(() => { localStorage.name = 'Ada'; document.cookie = 'session=1'; });
  await first.storageState({ path: state });
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#download')]);
  result.path = await download.path().catch(cause);
  await first.close();
  result.har = JSON.parse(fs.readFileSync(har)).log.entries.map(entry => new URL(entry.request.url).pathname);

  const second = await browser.newContext({ storageState: state });
  await second.routeFromHAR(har, { url: '**/protected' });
  const other = await second.newPage();
  await other.goto(site);
  result.state = await other.evaluate(() => [localStorage.name, document.cookie]);
  result.replayed = await other.evaluate(() => fetch('/protected').then(response => response.text()));
  await second.unrouteAll();
  result.refused = await other.goto(site + 'protected').catch(error => cause(error).includes('ERR_INVALID_AUTH_CREDENTIALS'));

  const third = await browser.newContext({ proxy: { server: proxy, username: 'ann', password: 'pass word' } });
  result.proxied = await (await (await third.newPage()).goto('http://site.test/')).text();
  result.request = await third.request.get('http://site.test/').catch(error => cause(error).includes('ECONNREFUSED')); // it does not leave by another way
  await browser.close();

  const workers = await Promise.all([1, 2, 3, 4].map(async n => {
    const worker = await chromium.connect(endpoint);
    const page = await worker.newPage();
    await page.goto(site + 'text?' + n);
    const text = await page.textContent('body');
    await worker.close();
    return text;
  }));
  result.parallel = new Set(workers).size === 1 && workers[0];
  console.log(JSON.stringify(result));
}
main().catch(error => { console.error(JSON.stringify(result), error); process.exit(1); });
