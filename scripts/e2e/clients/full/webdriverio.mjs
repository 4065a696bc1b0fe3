// Starts a session with webdriverio at a WebDriver server, opens a page, evaluates an expression, takes a screenshot,
// uploads a file and returns the results. webdriverio uses WebDriver BiDi where it can.
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { remote } from 'webdriverio';
import { input, writeResult } from '../input.mjs';

const { endpoint, url, expression } = await input();
const { protocol, hostname, port, pathname, username, password } = new URL(endpoint);
const browser = await remote({
  protocol: protocol.replace(':', ''),
  hostname,
  port: Number(port),
  path: pathname,
  user: username,
  key: password,
  logLevel: 'error',
  capabilities: { browserName: 'chrome' },
});
try {
  await browser.url(url);
  const seen = { title: await browser.getTitle(), value: await browser.execute(`return ${expression}`) };
  const screenshot = (await browser.takeScreenshot()).length;
  await browser.execute(`document.body.innerHTML = '<input type="file">'`);
  const file = fileURLToPath(import.meta.url);
  await browser.$('input').setValue(await browser.uploadFile(file));
  const size = await browser.execute(`return document.querySelector('input').files[0].size`);
  if (size !== (await stat(file)).size) throw new Error(`the uploaded file has ${size} bytes`);
  writeResult({ ...seen, version: browser.capabilities.browserVersion, screenshot });
} finally {
  await browser.deleteSession();
}
process.exit();
