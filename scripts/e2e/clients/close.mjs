// Closes a browser with puppeteer.
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { endpoint } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint });
await browser.close();
writeResult({});
