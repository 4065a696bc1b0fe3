// Keeps a page busy over a resumable connection that is cut repeatedly, and returns the numbers of lost and wrong
// messages.
import puppeteer from 'puppeteer-core';
import WebSocket from 'ws';
import { input, writeResult } from './input.mjs';
import { ResumingTransport } from './transport.mjs';

const { endpoint, control, sdk } = await input(); // sdk is the module of the TypeScript SDK with its transport
const transport = sdk ? await (await import(sdk)).ResumableConnection.open(endpoint, {}) : new ResumingTransport(endpoint, WebSocket, 500);
const browser = await puppeteer.connect({ transport, defaultViewport: null });
const page = await browser.newPage();
const client = await page.createCDPSession();
const result = { answers: 0, wrongAnswers: 0, events: 0, wrongEvents: 0, bytes: 0, screenshots: 0 };
client.on('Runtime.consoleAPICalled', ({ args }) => {
  result.events++;
  if (args[0].value !== result.events) result.wrongEvents++;
});
await client.send('Runtime.enable');
await page.evaluate(() => {
  window.sent = window.count = 0;
  window.timer = setInterval(() => console.log(++window.sent, 'x'.repeat(window.sent % 500)), 2);
});
const big = 'y'.repeat(300_000);
const isDone = async () => result.answers > 0 && result.events > 0 && (await (await fetch(control)).json()).enough;
for (let round = 0; !(await isDone()); round++) {
  const counts = await Promise.all(Array.from({ length: 5 }, () => page.evaluate(() => ++window.count)));
  for (const count of counts) if (count !== ++result.answers) result.wrongAnswers++;
  if (round % 5 === 0) {
    const echo = await page.evaluate((text) => text + text.length, big); // large in both directions
    if (echo !== big + big.length) result.wrongAnswers++;
    result.bytes += echo.length;
  }
  if (round % 25 === 0) result.screenshots += (await page.screenshot()).length > 1000 ? 1 : 0;
}
const sent = await page.evaluate(() => (clearInterval(window.timer), window.sent));
const count = await page.evaluate(() => window.count);
await page.close();
writeResult({ ...result, sent, count, cuts: transport.cuts ?? transport.resumed });
await browser.disconnect();
