// node playwright.cjs MODULE ENDPOINT DIR SITE uses what a client of Playwright has, and prints what it got as JSON.
const [, , module_, endpoint, dir, site] = process.argv;
const { chromium } = require(module_);
const fs = require('fs'), path = require('path'), crypto = require('crypto');
const result = {};
const hash = content => crypto.createHash('sha256').update(content).digest('hex');

async function main() {
  const browser = await chromium.connect(endpoint);
  const page = await browser.newPage({ recordVideo: { dir: path.join(dir, 'videos') }, acceptDownloads: true });
  await page.context().tracing.start({ screenshots: true, snapshots: true });
  await page.goto(site);
  result.title = await page.title();

  await page.goto(site + 'popup');
  result.back = new URL((await page.goBack({ timeout: 10_000 })).url()).pathname;

  const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#popup')]);
  await popup.waitForLoadState();
  result.popup = await popup.title();
  await popup.close();

  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#download')]);
  await download.saveAs(path.join(dir, 'saved'));
  result.download = hash(fs.readFileSync(path.join(dir, 'saved')));
  const stream = await download.createReadStream(), chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  result.stream = hash(Buffer.concat(chunks));

  const read = () => page.evaluate(async () => {
    const found = {};
    for (const file of document.querySelectorAll('input')[window.which].files) {
      const digest = await crypto.subtle.digest('SHA-256', await file.arrayBuffer());
      found[file.webkitRelativePath || file.name] = [...new Uint8Array(digest)].map(b => b.toString(16).padStart(2, '0')).join('');
    }
    return found;
  });
  await page.evaluate(() => { window.which = 0; });
  await page.setInputFiles('#file', path.join(dir, 'large'));
  result.upload = (await read()).large;
  await page.evaluate(() => { window.which = 1; });
  await page.setInputFiles('#directory', path.join(dir, 'tree'));
  result.directory = Object.keys(await read()).sort();

  result.fetch = await (await page.request.get(site + 'text')).text();
  await page.route('**/changed', async route => {
    const answer = await route.fetch({ url: site + 'text' });
    await route.fulfill({ response: answer, body: (await answer.text()) + ' changed' });
  });
  result.route = await page.evaluate(() => fetch('/changed').then(r => r.text()));

  await page.context().tracing.stop({ path: path.join(dir, 'trace.zip') });
  result.trace = fs.statSync(path.join(dir, 'trace.zip')).size > 1000;
  await page.close();
  await page.video().saveAs(path.join(dir, 'video.webm'));
  result.video = fs.readFileSync(path.join(dir, 'video.webm')).subarray(0, 4).toString('hex');
  result.version = browser.version();
  await browser.close();
  console.log(JSON.stringify(result));
}
main().catch(error => { console.error(JSON.stringify(result), error); process.exit(1); });
