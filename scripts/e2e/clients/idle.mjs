// Connects, sends nothing for some time, and then requests the browser's version on the same connection.
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { endpoint, seconds } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
try {
  await new Promise((done) => setTimeout(done, seconds * 1000));
  writeResult({ version: await browser.version() });
} finally {
  await browser.disconnect();
}
