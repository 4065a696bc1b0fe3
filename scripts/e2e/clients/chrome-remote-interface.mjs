// Opens a page with chrome-remote-interface, evaluates an expression, takes a screenshot and returns the results. An http
// endpoint is split into host, port and query, because the library builds its URLs itself.
import CDP from 'chrome-remote-interface';
import { input, writeResult } from './input.mjs';

const { endpoint, url, expression } = await input();
const { protocol, hostname, port, search } = new URL(endpoint);
// The library also passes the paths of WebSocket URLs to alterPath. They already have the token in their query.
const alterPath = (path) => (path.startsWith('/json') ? path + (path.includes('?') ? `&${search.slice(1)}` : search) : path);
const options = protocol === 'http:' ? { host: hostname, port, alterPath } : { target: endpoint, local: true };
// A client of the browser opens a tab and speaks with it in a session; a client of a host does so on the tab's own socket.
const browser = protocol === 'http:' ? await CDP({ ...options, target: await CDP.New(options) }) : await CDP(options);
let sessionId;
if (protocol !== 'http:') {
  const { targetId } = await browser.Target.createTarget({ url: 'about:blank' });
  ({ sessionId } = await browser.Target.attachToTarget({ targetId, flatten: true }));
}
const send = (method, params = {}) => browser.send(method, params, sessionId);
try {
  await send('Page.enable');
  const loaded = new Promise((resolve) => browser.once(sessionId ? `Page.loadEventFired.${sessionId}` : 'Page.loadEventFired', resolve));
  await send('Page.navigate', { url });
  await loaded;
  const evaluate = async (text) => (await send('Runtime.evaluate', { expression: text, returnByValue: true })).result.value;
  const { product } = await browser.Browser.getVersion();
  const seen = { title: await evaluate('document.title'), value: await evaluate(expression), version: product.split('/')[1] };
  const { data } = await send('Page.captureScreenshot');
  writeResult({ ...seen, screenshot: Buffer.from(data, 'base64').length });
  await send('Page.close');
} finally {
  await browser.close();
}
