// Runs a short WebDriver test suite with selenium-webdriver, and prints the results as JSON. The input is that of the Java
// suite. It has what clients/webdriver.mjs does not do.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import webdriver from 'selenium-webdriver';
import { input, writeResult } from './input.mjs';
import { runTests } from './tests.mjs';

const { Builder, By, Key, until } = webdriver;
const { endpoint, site, parallel } = await input();
let open = 0, peak = 0;
console.log = console.error; // downloadFile logs to standard output

const tests = {
  async 'answers alerts'(driver) {
    await driver.get(`${site}/alerts.html`);
    await driver.findElement(By.id('prompt')).click();
    const prompt = await driver.wait(until.alertIsPresent());
    await prompt.sendKeys('Grace');
    await prompt.accept();
    assert.equal(await driver.findElement(By.id('result')).getText(), 'Grace');
  },
  async 'switches frames and windows'(driver) {
    await driver.get(`${site}/frames.html`);
    await driver.switchTo().frame(1);
    await driver.switchTo().frame(0);
    assert.equal(await driver.findElement(By.id('where')).getText(), 'inner');
    await driver.switchTo().newWindow('tab');
    await driver.get(`${site}/start.html`);
    assert.equal((await driver.getAllWindowHandles()).length, 2);
    await assert.rejects(driver.findElement(By.id('where')), { name: 'NoSuchElementError' });
  },
  async 'performs actions'(driver) {
    await driver.get(`${site}/actions.html`);
    await driver.actions().dragAndDrop(await driver.findElement(By.id('box')), await driver.findElement(By.id('place'))).perform();
    assert.equal(await driver.findElement(By.id('log')).getText(), 'dropped');
    await driver.findElement(By.id('text')).sendKeys('ab', Key.BACK_SPACE, 'c');
    assert.equal(await driver.findElement(By.id('text')).getAttribute('value'), 'ac');
  },
  async 'keeps cookies'(driver) {
    await driver.get(`${site}/cookie`);
    await driver.manage().addCookie({ name: 'own', value: 'value' });
    assert.deepEqual((await driver.manage().getCookies()).map(({ name }) => name).sort(), ['own', 'visit']);
    await driver.manage().deleteCookie('own');
    assert.equal(await driver.executeScript('return document.cookie'), '');
  },
  async 'manages downloads'(driver) {
    await driver.get(`${site}/start.html`);
    await driver.executeScript(`location.href = '/report'`);
    await driver.wait(async () => (await driver.getDownloadableFiles()).includes('report.txt'));
    const directory = await mkdtemp(join(tmpdir(), 'download-'));
    await driver.downloadFile('report.txt', directory);
    const saved = join(directory, 'report.txt');
    await driver.wait(() => existsSync(saved) && readFileSync(saved, 'utf8') === 'content of the site');
    await driver.deleteDownloadableFiles();
    assert.deepEqual(await driver.getDownloadableFiles(), []);
  },
};

const results = await runTests(Object.entries(tests).map(([name, run]) => ({
  name,
  async run() {
    peak = Math.max(peak, ++open);
    const driver = await new Builder().disableEnvironmentOverrides().usingServer(endpoint).withCapabilities({ browserName: 'chrome', 'se:downloadsEnabled': true }).build();
    try {
      await run(driver);
    } finally {
      await driver.quit();
      open--;
    }
  },
})), parallel);
writeResult({ ...results, peak });
