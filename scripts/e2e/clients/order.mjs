// Orders in the shop of script_test.go: as a program with puppeteer, or as a person with the pointer and the keyboard of the live
// view. A person uses puppeteer only to see where things are.
import puppeteer from 'puppeteer-core';
import WebSocket from 'ws';
import { input, writeResult } from './input.mjs';

const { endpoint, url, password, view, token } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
const [page] = await browser.pages();
await page.goto(url);

const pay = async () => (await (await page.$('iframe')).contentFrame());
const ordered = async (page) => page.waitForFunction(() => document.title === 'Thank you');
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function program() {
  page.on('dialog', (dialog) => dialog.accept());
  await page.type('#email', 'ada@shop.example');
  await page.type('#password', password);
  await page.select('#color', 'g');
  await page.click('#terms');
  await (await page.$$('li button'))[1].click();
  await page.click('#hostile');
  const frame = await pay();
  await frame.type('input', '4711');
  await frame.click('button');
  const opened = new Promise((done) => page.once('popup', done));
  await page.click('#help');
  const help = await opened;
  await (await help.waitForSelector('button')).click();
  await page.click('#coupon');
  await page.click('#buy');
}

// person returns the pointer and the keyboard of the live view.
async function person() {
  const socket = new WebSocket(view, { headers: { 'X-Svc-Token': token } });
  let received = Buffer.alloc(0), wake = () => {};
  socket.on('message', (data) => { received = Buffer.concat([received, data]); wake(); });
  const read = async (length) => {
    while (received.length < length) await new Promise((done) => { wake = done; });
    const part = received.subarray(0, length);
    received = received.subarray(length);
    return part;
  };
  await new Promise((done, fail) => { socket.on('open', done); socket.on('error', fail); });
  await read(12);
  socket.send(Buffer.from('RFB 003.008\n'));
  await read((await read(1))[0]);
  socket.send(Buffer.from([1]));
  await read(4);
  socket.send(Buffer.from([1]));
  await read((await read(24)).readUInt32BE(20));
  socket.removeAllListeners('message'); // pictures
  socket.send(Buffer.from([2, 0, 0, 1, 0, 0, 0, 7])); // as JPEGs
  const look = (incremental) => socket.send(Buffer.from([3, incremental, 0, 0, 0, 0, 255, 255, 255, 255]));
  look(0); // input is for the page that was seen last
  setInterval(look, 100, 1);
  await sleep(1000);
  const pointer = (buttons, x, y) => socket.send(Buffer.from([5, buttons, x >> 8, x & 255, y >> 8, y & 255]));
  const press = (keysym) => { for (const down of [1, 0]) socket.send(Buffer.from([4, down, 0, 0, keysym >> 24, (keysym >> 16) & 255, (keysym >> 8) & 255, keysym & 255])); };
  return {
    async click(element) {
      await element.evaluate((e) => e.scrollIntoView({ block: 'center' }));
      const box = await element.boundingBox(), x = Math.round(box.x + box.width / 2), y = Math.round(box.y + box.height / 2);
      for (const buttons of [0, 1, 0]) pointer(buttons, x, y);
      await sleep(700); // a person is not fast; also longer than a double click
    },
    async type(text) {
      for (const letter of text) press(letter.charCodeAt(0));
      await sleep(300);
    },
    async key(keysym) {
      press(keysym);
      await sleep(300);
    },
  };
}

async function takeOver() {
  const { click, type, key } = await person(), tab = 0xff09, down = 0xff54;
  await page.bringToFront();
  await click(await page.$('#email'));
  await type('ada@shop.example');
  await key(tab);
  await type(password);
  await key(tab);
  await key(down);
  await click(await page.$('label[for=terms]'));
  await click((await page.$$('li button'))[1]);
  await click(await page.$('#hostile'));
  const frame = await pay();
  await click(await frame.$('input'));
  await type('4711');
  await click(await frame.$('button'));
  await click(await page.$('#buy'));
}

await (view ? takeOver() : program());
await ordered(page);
writeResult({});
await browser.disconnect();
process.exit();
