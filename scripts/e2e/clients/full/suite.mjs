// Runs a WebDriver test suite with webdriverio, and prints the results as JSON. The input is that of the
// Java suite. Each test has a session of its own; webdriverio uses WebDriver BiDi where it can.
import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Key, remote } from 'webdriverio';
import { input, writeResult } from '../input.mjs';
import { runTests } from '../tests.mjs';

const { endpoint, site, secureSite, parallel } = await input();
const server = new URL(endpoint);
const tests = [];
// test adds a test, and the capabilities of its session.
const test = (name, run, capabilities = {}) => tests.push({ name, run, capabilities });

let open = 0, peak = 0;
async function start(capabilities = {}) {
  peak = Math.max(peak, ++open);
  return remote({
    protocol: server.protocol.replace(':', ''),
    hostname: server.hostname,
    port: Number(server.port),
    path: server.pathname,
    user: server.username,
    key: server.password,
    logLevel: 'error',
    connectionRetryCount: 0,
    waitforTimeout: 20_000,
    capabilities: { browserName: 'chrome', ...capabilities },
  });
}

async function end(browser) {
  await browser.deleteSession();
  open--;
}

const value = (element) => element.getProperty('value');
const refused = (pattern) => ({ message: pattern });

test('opens a page', async (browser) => {
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.getTitle(), 'Index');
  assert.equal(await browser.getUrl(), `${site}/start.html`);
  assert.match(await browser.getPageSource(), /First paragraph/);
});

test('goes through the history', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.$('=Open the form').click();
  assert.equal(await browser.getTitle(), 'Form');
  await browser.back();
  assert.equal(await browser.getTitle(), 'Index');
  await browser.forward();
  await browser.$('#name').addValue(' changed');
  await browser.refresh();
  assert.equal(await value(browser.$('#name')), 'initial');
});

test('stops loading after a timeout', async (browser) => {
  await browser.setTimeout({ pageLoad: 500 });
  await assert.rejects(browser.navigateTo(`${site}/slow`), refused(/timeout/i));
  await browser.setTimeout({ pageLoad: 60_000 });
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.getTitle(), 'Index');
});

test('finds elements by every strategy', async (browser) => {
  await browser.url(`${site}/start.html`);
  for (const [selector, text] of Object.entries({
    '#heading': 'Index', '.title': 'Index', '<h1>': 'Index', '[name="to-form"]': 'Open the form', '=Open the form': 'Open the form',
    '*=windows': 'Open the windows', '//ul[@id="list"]/li[2]': 'Two', 'h1=Index': 'Index', 'aria/Remove the list': 'Remove',
  })) assert.equal(await browser.$(selector).getText(), text, selector);
});

test('finds many and nested elements', async (browser) => {
  await browser.url(`${site}/start.html`);
  assert.deepEqual(await browser.$$('li').map((item) => item.getText()), ['One', 'Two', 'Three']);
  assert.equal(await browser.$('#list').$('li:last-child').getText(), 'Three');
  assert.equal(await browser.$('#missing').isExisting(), false);
});

test('reads the state of elements', async (browser) => {
  await browser.url(`${site}/start.html`);
  const box = browser.$('#colored');
  assert.equal(await box.getAttribute('title'), 'A colored box');
  assert.equal((await box.getCSSProperty('color')).parsed.hex, '#008000');
  assert.deepEqual(await box.getSize(), { width: 120, height: 40 });
  assert.equal(await box.isDisplayed(), true);
  assert.equal(await browser.$('#hidden').isDisplayed(), false);
  assert.equal(await browser.$('#remove').getComputedLabel(), 'Remove the list');
  assert.equal(await browser.$('#remove').getComputedRole(), 'button');
});

test('scrolls to an element and clicks', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.$('#far').click();
  assert.equal(await browser.getTitle(), 'Far');
});

test('reports elements that cannot be used', async (browser) => {
  await browser.url(`${site}/start.html`);
  const [covered] = Object.values(await browser.findElement('css selector', '#covered'));
  await assert.rejects(browser.elementClick(covered), refused(/intercepted/));
  assert.match((await browser.findElement('css selector', '#missing')).error, /no such element/);
  await assert.rejects(browser.findElement('css selector', 'p['), refused(/selector/));
});

test('submits a form', async (browser) => {
  await browser.url(`${site}/form.html`);
  await browser.$('#name').setValue('Ada Lovelace');
  await browser.$('#notes').setValue('zwei\nZeilen: äöü €');
  await browser.$('#agree').click();
  await browser.$('#color').selectByVisibleText('Green');
  await browser.$('#send').click();
  const sent = await browser.$('pre').getText();
  for (const field of ['name=Ada Lovelace', 'notes=zwei\\r\\nZeilen: äöü €', 'agree=yes', 'color=g']) assert.ok(sent.includes(field), sent);
});

test('types keys', async (browser) => {
  await browser.url(`${site}/form.html`);
  const name = browser.$('#name');
  await name.click();
  await browser.keys(['Home', 'X', 'End', 'Y', 'Z', 'Backspace']);
  assert.equal(await value(name), 'XinitialY');
  await browser.keys(['Control', 'a']);
  await browser.keys('replaced');
  assert.equal(await value(name), 'replaced');
  await browser.keys('Tab');
  assert.equal(await browser.$('#notes').isFocused(), true);
});

test('changes selects and radio buttons', async (browser) => {
  await browser.url(`${site}/form.html`);
  const color = browser.$('#color');
  await color.selectByAttribute('value', 'b');
  assert.equal(await value(color), 'b');
  await color.selectByIndex(0);
  assert.equal(await value(color), 'r');
  await browser.$('#large').click();
  assert.equal(await browser.$('#small').isSelected(), false);
  assert.equal(await browser.$('#disabled').isEnabled(), false);
});

test('uploads files', async (browser) => {
  await browser.url(`${site}/form.html`);
  const file = join(await mkdtemp(join(tmpdir(), 'upload-')), 'first ä.txt');
  await writeFile(file, 'one');
  await browser.$('#file').setValue(await browser.uploadFile(file));
  await browser.$('#read=first ä.txt: one').waitForExist();
  const [input] = Object.values(await browser.findElement('css selector', '#files'));
  await assert.rejects(browser.elementSendKeys(input, file), refused(/The browser has no file/));
});

test('manages downloads', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.execute((address) => { location.href = address; }, '/report');
  await browser.waitUntil(async () => (await browser.getDownloadableFiles()).names.includes('report.txt'));
  const { filename, contents } = await browser.download('report.txt');
  assert.equal(filename, 'report.txt');
  assert.ok(contents.length > 0);
  await browser.deleteDownloadableFiles();
  assert.deepEqual((await browser.getDownloadableFiles()).names, []);
}, { 'se:downloadsEnabled': true });

test('refuses to manage downloads without the capability', async (browser) => {
  await assert.rejects(browser.getDownloadableFiles(), refused(/se:downloadsEnabled must be true/));
});

test('answers alerts', async (browser) => {
  await browser.url(`${site}/alerts.html`);
  await browser.$('#alert').click();
  assert.equal(await browser.getAlertText(), 'Stop');
  await browser.acceptAlert();
  await browser.$('#confirm').click();
  await browser.dismissAlert();
  assert.equal(await browser.$('#result').getText(), 'false');
  await browser.$('#prompt').click();
  await browser.sendAlertText('Grace');
  await browser.acceptAlert();
  assert.equal(await browser.$('#result').getText(), 'Grace');
}, { 'wdio:enforceWebDriverClassic': true });

test('receives dialogs', async (browser) => {
  await browser.url(`${site}/alerts.html`);
  const shown = new Promise((resolve) => browser.once('dialog', resolve));
  const clicked = browser.$('#confirm').click();
  const dialog = await shown;
  assert.deepEqual([dialog.type(), dialog.message()], ['confirm', 'Continue?']);
  await dialog.accept();
  await clicked;
  assert.equal(await browser.$('#result').getText(), 'true');
}, { unhandledPromptBehavior: 'ignore' });

test('switches frames', async (browser) => {
  await browser.url(`${site}/frames.html`);
  await browser.switchFrame(browser.$('iframe[name="first"]'));
  await browser.$('#button').click();
  assert.equal(await browser.$('#button').getText(), 'clicked');
  await browser.switchFrame(null);
  assert.equal(await browser.$('#where').getText(), 'top');
  await browser.switchFrame(browser.$('#second'));
  await browser.switchFrame(browser.$('iframe'));
  assert.equal(await browser.$('#where').getText(), 'inner');
});

test('switches frames without BiDi', async (browser) => {
  await browser.url(`${site}/frames.html`);
  await browser.switchToFrame(1);
  assert.equal(await browser.$('#where').getText(), 'middle');
  await browser.switchToFrame(0);
  assert.equal(await browser.$('#where').getText(), 'inner');
  await browser.switchToParentFrame();
  assert.equal(await browser.$('#where').getText(), 'middle');
  await assert.rejects(browser.switchToFrame(7), refused(/frame/));
}, { 'wdio:enforceWebDriverClassic': true });

test('follows a link to a new tab', async (browser) => {
  await browser.url(`${site}/windows.html`);
  const own = await browser.getWindowHandle();
  await browser.$('#tab').click();
  await browser.waitUntil(async () => (await browser.getWindowHandles()).length === 2);
  await browser.switchWindow('Index');
  assert.equal(await browser.getTitle(), 'Index');
  await browser.closeWindow();
  await browser.switchToWindow(own);
  assert.equal(await browser.getTitle(), 'Windows');
});

test('opens tabs and windows', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.newWindow(`${site}/form.html`);
  assert.equal(await browser.getTitle(), 'Form');
  await browser.createWindow('window');
  assert.equal((await browser.getWindowHandles()).length, 3);
  await browser.switchWindow('Index');
  await assert.rejects(browser.switchToWindow('missing'), refused(/window/));
});

test('resizes the window', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.setWindowRect(null, null, 700, 500);
  const { width, height } = await browser.getWindowRect();
  assert.deepEqual([width, height], [700, 500]);
  await browser.setViewport({ width: 500, height: 400 });
  assert.deepEqual(await browser.execute(() => [innerWidth, innerHeight]), [500, 400]);
});

test('adds and deletes cookies', async (browser) => {
  await browser.url(`${site}/cookie`);
  await browser.setCookies({ name: 'own', value: 'value', path: '/', sameSite: 'Strict' });
  const [visit] = await browser.getCookies({ name: 'visit' });
  assert.equal(visit.httpOnly, true);
  assert.match(await browser.execute(() => document.cookie), /own=value/);
  await browser.deleteCookies('own');
  assert.deepEqual((await browser.getCookies()).map(({ name }) => name), ['visit']);
});

test('waits for elements', async (browser) => {
  await browser.url(`${site}/waits.html`);
  await browser.$('#add').click();
  await browser.$('#added').waitForExist();
  await browser.$('#show').click();
  await browser.$('#box').waitForDisplayed();
  await browser.$('#hide').click();
  await browser.$('#add').waitForDisplayed({ reverse: true });
  await assert.rejects(browser.waitUntil(() => false, { timeout: 200, interval: 50, timeoutMsg: 'nobody clicks' }), refused(/nobody clicks/));
});

test('passes values and elements to scripts', async (browser) => {
  await browser.url(`${site}/start.html`);
  assert.deepEqual(await browser.execute((...given) => given, 1, 'two', true, { a: [3.5] }), [1, 'two', true, { a: [3.5] }]);
  await browser.execute((element, text) => { element.textContent = text; }, await browser.$('#heading'), 'Changed');
  assert.equal(await browser.$('#heading').getText(), 'Changed');
  assert.equal(await browser.execute(() => Promise.resolve(3)), 3);
  await assert.rejects(browser.execute(() => missing.value), refused(/missing is not defined/));
});

test('runs asynchronous scripts', async (browser) => {
  await browser.url(`${site}/start.html`);
  const answer = await browser.executeAsync((element, done) => setTimeout(() => done(element.textContent), 100), await browser.$('#heading'));
  assert.equal(answer, 'Index');
  await browser.setTimeout({ script: 300 });
  await assert.rejects(browser.executeAsync(() => {}), refused(/timeout/i));
}, { 'wdio:enforceWebDriverClassic': true });

test('uses the mouse', async (browser) => {
  await browser.url(`${site}/actions.html`);
  await browser.$('#target').click();
  await browser.$('#target').doubleClick();
  await browser.$('#target').click({ button: 'right' });
  const log = await browser.$('#log').getText();
  for (const event of ['click0', 'dblclick0', 'contextmenu2']) assert.ok(log.includes(event), log);
  await browser.$('#menu').moveTo();
  await browser.$('#item').waitForDisplayed();
});

test('drags', async (browser) => {
  await browser.url(`${site}/actions.html`);
  await browser.$('#box').dragAndDrop(browser.$('#place'), { duration: 100 });
  assert.equal(await browser.$('#log').getText(), 'dropped');
});

test('performs actions of keys and the wheel', async (browser) => {
  await browser.url(`${site}/actions.html`);
  await browser.$('#text').click();
  await browser.action('key').down(Key.Shift).down('a').up('a').up(Key.Shift).down('b').up('b').perform();
  assert.equal(await value(browser.$('#text')), 'Ab');
  await browser.action('wheel').scroll({ deltaX: 0, deltaY: 200, origin: browser.$('#scroller') }).perform();
  await browser.waitUntil(() => browser.execute(() => document.getElementById('scroller').scrollTop === 200));
  await browser.scroll(0, 500);
  await browser.waitUntil(() => browser.execute(() => scrollY === 500));
});

test('takes screenshots and prints', async (browser) => {
  await browser.url(`${site}/start.html`);
  const size = (png) => [Buffer.from(png, 'base64').readUInt32BE(16), Buffer.from(png, 'base64').readUInt32BE(20)];
  assert.deepEqual(size(await browser.takeScreenshot()), await browser.execute(() => [innerWidth, innerHeight]));
  const { elementId } = await browser.$('#colored').getElement();
  assert.deepEqual(size(await browser.takeElementScreenshot(elementId)), [120, 40]);
  assert.match(Buffer.from(await browser.printPage('landscape'), 'base64').toString('latin1'), /^%PDF-/);
});

test('enters shadow roots', async (browser) => {
  await browser.url(`${site}/shadow.html`);
  assert.equal(await browser.$('#host').shadow$('.inside').getText(), 'In the shadow');
  await browser.$('#host').shadow$('#field').setValue('typed');
  assert.equal(await value(browser.$('#host').shadow$('#field')), 'typed');
  assert.equal(await browser.$('#host').shadow$('#inner').shadow$('.inside').getText(), 'Deeper');
});

test('receives log entries', async (browser) => {
  await browser.url(`${site}/log.html`);
  await browser.sessionSubscribe({ events: ['log.entryAdded'] });
  const entries = [];
  browser.on('log.entryAdded', ({ type, level, text }) => entries.push(`${type} ${level} ${text}`));
  for (const id of ['log', 'warn', 'throw']) await browser.$(`#${id}`).click();
  await browser.waitUntil(() => entries.length >= 3);
  assert.deepEqual(entries.sort(), ['console info Hello 42', 'console warn Careful', 'javascript error Error: On purpose']);
});

test('answers requests in place of the server', async (browser) => {
  const mock = await browser.mock(`${site}/start.html`);
  mock.respond('<title>Mocked</title>', { headers: { 'Content-Type': 'text/html' } });
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.getTitle(), 'Mocked');
  await mock.restore();
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.getTitle(), 'Index');
});

test('runs a script before the page does', async (browser) => {
  await browser.addInitScript(() => { window.early = 'yes'; });
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.execute(() => window.early), 'yes');
});

test('sends commands of the Chrome DevTools Protocol', async (browser) => {
  const { product } = await browser.sendCommandAndGetResult('Browser.getVersion', {});
  assert.ok(product.endsWith(browser.capabilities.browserVersion), product);
  await browser.setNetworkConditions({ offline: true, latency: 0, download_throughput: 0, upload_throughput: 0 });
  await browser.url(`${site}/start.html`).catch(() => {});
  assert.notEqual(await browser.getTitle(), 'Index');
  await browser.deleteNetworkConditions();
  await browser.url(`${site}/start.html`);
  assert.equal(await browser.getTitle(), 'Index');
});

test('accepts insecure certificates', async (browser) => {
  await browser.url(`${secureSite}/start.html`);
  assert.equal(await browser.getTitle(), 'Index');
}, { acceptInsecureCerts: true });

test('separates sessions and describes them', async (browser) => {
  await browser.url(`${site}/start.html`);
  await browser.execute(() => localStorage.setItem('own', '1'));
  assert.ok(browser.capabilities['svc:session'].viewUrl && browser.capabilities['se:cdp'].startsWith('ws'));
  const other = await start();
  await other.url(`${site}/start.html`);
  assert.equal(await other.execute(() => localStorage.getItem('own')), null);
  await end(other);
  assert.equal(await browser.getTitle(), 'Index');
});

test('refuses unknown options', async () => {
  await assert.rejects(start({ 'svc:options': { profile: 'x' } }).finally(() => open--), refused(/svc:options\.profile/));
}, { 'goog:chromeOptions': { args: ['--headless=new', '--lang=de'] } });

const results = await runTests(tests.map(({ name, run, capabilities }) => ({
  name,
  async run() {
    const browser = await start(capabilities);
    try {
      await run(browser);
    } finally {
      await end(browser);
    }
  },
})), parallel);
writeResult({ ...results, peak });
process.exit();
