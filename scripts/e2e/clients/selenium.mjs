// Connects Selenium's chromedriver to a running browser, opens a page, evaluates an expression, takes a screenshot and
// returns the results.
import webdriver from 'selenium-webdriver';
import chrome from 'selenium-webdriver/chrome.js';
import { input, writeResult } from './input.mjs';

const { debugger: address, driver: program, url, expression } = await input();
const options = new chrome.Options().debuggerAddress(address);
const driver = await new webdriver.Builder()
  .forBrowser('chrome')
  .setChromeOptions(options)
  .setChromeService(new chrome.ServiceBuilder(program))
  .build();
try {
  await driver.get(url);
  const capabilities = await driver.getCapabilities();
  writeResult({
    title: await driver.getTitle(),
    value: await driver.executeScript(`return ${expression}`),
    version: capabilities.get('browserVersion'),
    screenshot: (await driver.takeScreenshot()).length,
  });
} finally {
  await driver.quit(); // disconnects, because the browser was not launched here
}
