// Downloads a file of a page with a client, saves it on this machine from the files of the launch, uploads it again for
// the browser, and returns both contents.
import { readFile, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import webdriver from 'selenium-webdriver';
import { input, writeResult } from './input.mjs';

const { client, endpoint, worker, key, url, profile, rounds = 1 } = await input();
const target = join(await mkdtemp(join(tmpdir(), 'saved-')), 'report.bin');

// save writes a file of the launch to this machine. `files` is the URL of the files and `headers` has a credential.
async function save(files, headers, id, name) {
  const response = await fetch(`${files}/${id}?name=${encodeURIComponent(name)}`, { headers });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  await writeFile(target, response.body);
  return readFile(target, 'utf8');
}

// upload stores a file of this machine for the browser and returns the path that the browser sees.
async function upload(files, headers, name) {
  const response = await fetch(`${files}/${encodeURIComponent(name)}`, { method: 'PUT', headers, body: await readFile(target) });
  if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()).data.path;
}

// filesOf returns the URL of the files of a launch and the header with its token, from its webSocketDebuggerUrl.
function filesOf(socket) {
  const at = new URL(socket);
  return [`${worker}/browsers/${at.pathname.split('/browsers/')[1].split('/')[0]}/files`, { 'X-Svc-Token': at.searchParams.get('ct') }];
}

const readInput = `document.querySelector('input').files[0].text()`;

const clients = {
  async playwright() {
    const browser = await chromium.connectOverCDP(endpoint);
    try {
      const context = await browser.newContext();
      const page = await context.newPage();
      const [files, headers] = filesOf(endpoint);
      await page.goto(url);
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('a')]);
      const saved = await save(files, headers, 'latest', download.suggestedFilename());
      const path = await upload(files, headers, 'again.bin');
      const cdp = await context.newCDPSession(page);
      const { result } = await cdp.send('Runtime.evaluate', { expression: `document.querySelector('input')` });
      await cdp.send('DOM.setFileInputFiles', { files: [path], objectId: result.objectId });
      return { saved, uploaded: await page.evaluate(readInput) };
    } finally {
      await browser.close();
    }
  },
  async puppeteer() {
    const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
    try {
      const context = await browser.createBrowserContext({ downloadBehavior: { policy: 'allow', downloadPath: '/no/such/path' } });
      const page = await context.newPage();
      const [files, headers] = filesOf(endpoint);
      const cdp = await browser.target().createCDPSession();
      await cdp.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true });
      let saved;
      for (let round = 0; round < rounds; round++) {
        await page.goto(url); // Chromium allows a document ten downloads in quick succession
        const begun = new Promise((resolve) => cdp.once('Browser.downloadWillBegin', resolve));
        await page.click('a');
        const { guid, suggestedFilename } = await begun;
        saved = await save(files, headers, guid, suggestedFilename);
        if (round < rounds - 1) await fetch(`${files}/${guid}`, { method: 'DELETE', headers });
      }
      const path = await upload(files, headers, 'again.bin');
      await (await page.$('input')).uploadFile(path);
      return { saved, uploaded: await page.evaluate(readInput) };
    } finally {
      await browser.disconnect();
    }
  },
  async selenium() {
    const driver = await new webdriver.Builder().usingServer(endpoint).withCapabilities({ browserName: 'chrome', 'svc:options': { profileId: profile } }).build();
    try {
      const session = (await driver.getCapabilities()).get('svc:session');
      const [files, headers] = [`${worker}/browsers/${session.launchId}/files`, { 'X-API-Key': key }];
      await driver.get(url);
      await driver.findElement({ css: 'a' }).click();
      const name = 'report.bin';
      await driver.wait(async () => (await fetch(`${files}/latest?name=${name}`, { method: 'HEAD', headers })).ok);
      const saved = await save(files, headers, 'latest', name);
      await driver.findElement({ css: 'input' }).sendKeys(await upload(files, headers, 'again.bin'));
      return { saved, uploaded: await driver.executeScript(`return ${readInput}`) };
    } finally {
      await driver.quit();
    }
  },
};
const { saved, uploaded } = await clients[client]();
writeResult({ saved: saved.length, uploaded: uploaded.length, same: saved === uploaded });
