// Keeps a page busy over a resumable connection that is cut repeatedly, and returns the numbers of lost and wrong
// messages.
import puppeteer from 'puppeteer-core';
import WebSocket from 'ws';
import { answer, input } from './input.mjs';
import { ResumingTransport } from './transport.mjs';

const { endpoint, control } = await input();
const transport = new ResumingTransport(endpoint, WebSocket, 500);
const browser = await puppeteer.connect({ transport, defaultViewport: null });
const page = await browser.newPage();
const client = await page.createCDPSession();
const told = { answers: 0, wrongAnswers: 0, events: 0, wrongEvents: 0, bytes: 0, pictures: 0 };
client.on('Runtime.consoleAPICalled', ({ args }) => {
  told.events++;
  if (args[0].value !== told.events) told.wrongEvents++;
});
await client.send('Runtime.enable');
await page.evaluate(() => {
  window.said = window.count = 0;
  window.talk = setInterval(() => console.log(++window.said, 'x'.repeat(window.said % 500)), 2);
});
const big = 'y'.repeat(300_000);
for (let round = 0; !(await (await fetch(control)).json()).enough; round++) {
  const counts = await Promise.all(Array.from({ length: 5 }, () => page.evaluate(() => ++window.count)));
  for (const count of counts) if (count !== ++told.answers) told.wrongAnswers++;
  if (round % 5 === 0) {
    const echo = await page.evaluate((text) => text + text.length, big); // large in both directions
    if (echo !== big + big.length) told.wrongAnswers++;
    told.bytes += echo.length;
  }
  if (round % 25 === 0) told.pictures += (await page.screenshot()).length > 1000 ? 1 : 0;
}
const said = await page.evaluate(() => (clearInterval(window.talk), window.said));
const count = await page.evaluate(() => window.count);
await page.close();
answer({ ...told, said, count, cuts: transport.cuts });
await browser.disconnect();
