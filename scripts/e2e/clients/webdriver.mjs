// Starts a session with selenium-webdriver at a WebDriver server, opens a page, evaluates an expression, takes a
// screenshot and returns the results. With `everything` it also clicks, uploads a file, and uses WebDriver BiDi and CDP.
// It quits the session or, with `crash`, ends the browser and returns the error of the next command.
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import webdriver from 'selenium-webdriver';
import LogInspector from 'selenium-webdriver/bidi/logInspector.js';
import remote from 'selenium-webdriver/remote/index.js';
import { input, writeResult } from './input.mjs';

const { endpoint, capabilities, url, expression, everything, crash } = await input();
const driver = await new webdriver.Builder()
  .disableEnvironmentOverrides()
  .usingServer(endpoint)
  .withCapabilities({ browserName: 'chrome', ...capabilities })
  .build();

// uploaded uploads a file of this machine and returns what the page reads.
async function uploaded() {
  const file = join(await mkdtemp(join(tmpdir(), 'upload-')), 'a file.txt');
  await writeFile(file, 'content of the client');
  driver.setFileDetector(new remote.FileDetector());
  await driver.findElement({ css: 'input' }).sendKeys(file);
  return driver.executeAsyncScript(`const done = arguments[0], [file] = document.querySelector('input').files;
    file.text().then((text) => done(file.name + ': ' + text), done);`);
}

// logged returns the text that the page logs, over WebDriver BiDi.
async function logged() {
  const inspector = await LogInspector(driver);
  const entry = new Promise((resolve) => inspector.onConsoleEntry(resolve));
  await driver.executeScript(`console.log('from the page')`);
  return (await entry).text;
}

const known = await driver.getCapabilities();
const seen = { version: known.get('browserVersion'), session: known.get('svc:session').sessionId };
try {
  await driver.get(url);
  seen.title = await driver.getTitle();
  seen.value = await driver.executeScript(`return ${expression}`);
  seen.screenshot = (await driver.takeScreenshot()).length;
  if (everything) {
    await driver.executeScript(`document.body.innerHTML = '<button onclick="this.textContent = 2">1</button><input type="file">'`);
    await driver.findElement({ css: 'button' }).click();
    seen.clicked = await driver.findElement({ css: 'button' }).getText();
    seen.uploaded = await uploaded();
    seen.logged = await logged();
    const connection = await driver.createCDPConnection('page');
    seen.product = (await connection.send('Browser.getVersion', {})).result.product;
  }
  if (crash) {
    (await driver.createCDPConnection('page')).execute('Browser.crash', {}, null);
    await driver.wait(() => driver.getTitle().then(() => false, () => true));
    seen.error = await driver.getTitle().catch(({ name }) => name);
  }
  writeResult(seen);
} finally {
  if (!crash) await driver.quit();
}
process.exit(); // the WebDriver BiDi socket is open
