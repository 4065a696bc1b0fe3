// Opens a URL, waits until the page is loaded and its sockets have received messages, and returns the final URL and the
// failed requests.
import puppeteer from 'puppeteer-core';
import { input, writeResult } from './input.mjs';

const { endpoint, url, sockets: wanted } = await input();
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });
try {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const cdp = await page.createCDPSession();
  const [failed, sockets] = [[], new Map()];
  let files = 0;
  const icon = (r) => new URL(r.url()).pathname === '/favicon.ico'; // browsers request it automatically
  page.on('response', (r) => (r.status() >= 400 && !icon(r) ? failed.push(`${r.status()} ${new URL(r.url()).pathname}`) : files++));
  page.on('requestfailed', (r) => failed.push(`${r.failure()?.errorText} ${new URL(r.url()).pathname}`));
  page.on('pageerror', (error) => failed.push(String(error)));
  await cdp.send('Network.enable');
  cdp.on('Network.webSocketCreated', (e) => sockets.set(e.requestId, { path: new URL(e.url).pathname, status: 0, received: 0 }));
  cdp.on('Network.webSocketHandshakeResponseReceived', (e) => (sockets.get(e.requestId).status = e.response.status));
  cdp.on('Network.webSocketFrameReceived', (e) => sockets.get(e.requestId).received++);
  cdp.on('Network.webSocketFrameError', (e) => failed.push(`socket: ${e.errorMessage}`));
  await page.goto(url, { waitUntil: 'load' });
  const spoke = () => [...sockets.values()].filter((s) => s.received > 0).length >= wanted;
  for (const end = Date.now() + 15_000; !spoke() && Date.now() < end; ) await new Promise((done) => setTimeout(done, 50));
  const { cookies } = await cdp.send('Network.getCookies', { urls: [page.url()] });
  writeResult({
    address: page.url(), title: await page.title(), files, failed, sockets: [...sockets.values()],
    cookies: cookies.map(({ name, path, secure, httpOnly, sameSite }) => ({ name, path, secure, httpOnly, sameSite })),
  });
  await context.close();
} finally {
  await browser.disconnect();
}
