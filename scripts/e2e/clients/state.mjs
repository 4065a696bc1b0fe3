// Fills or reads the storage of a site with playwright over CDP, and returns the storage state as playwright sees it. With
// worker it also installs a service worker with a cache, or fetches a page that only the service worker has.
import { chromium } from 'playwright-core';
import { input, writeResult } from './input.mjs';

const { endpoint, url, fill, state, worker } = await input();
const browser = await chromium.connectOverCDP(endpoint);

// fillStorage runs in the page.
async function fillStorage(size) {
  localStorage.setItem('theme', 'dark');
  localStorage.setItem('large', 'x'.repeat(size));
  document.cookie = 'seen=1; path=/; max-age=3600';
  const open = indexedDB.open('shop', 2);
  open.onupgradeneeded = () => open.result.createObjectStore('cart', { keyPath: 'id' }).put({ id: 1, at: new Date(0), sizes: [1, 2] });
  await new Promise((resolve) => (open.onsuccess = resolve));
  open.result.close();
}

// installWorker runs in the page.
async function installWorker() {
  const cache = await caches.open('kept');
  await cache.put('/from-worker', new Response('from the cache'));
  await navigator.serviceWorker.register('/worker.js');
  await navigator.serviceWorker.ready;
}

// readWorker runs in the page.
async function readWorker() {
  const [registration] = await navigator.serviceWorker.getRegistrations();
  const answer = await fetch('/from-worker');
  return { serviceWorker: registration?.active?.scriptURL.split('/').pop(), cached: answer.ok ? await answer.text() : answer.status };
}

// readStorage runs in the page.
async function readStorage() {
  const open = indexedDB.open('shop');
  await new Promise((resolve) => (open.onsuccess = resolve));
  const all = open.result.transaction('cart').objectStore('cart').getAll();
  await new Promise((resolve) => (all.onsuccess = resolve));
  open.result.close();
  const [{ id, at, sizes }] = all.result;
  return {
    theme: localStorage.getItem('theme'), large: localStorage.getItem('large').length, cookies: document.cookie,
    id, at: at instanceof Date ? at.toISOString() : 'no date', sizes: sizes.join(),
  };
}

try {
  const context = state ? await browser.newContext({ storageState: state }) : browser.contexts()[0];
  const page = await context.newPage();
  await page.goto(url);
  if (fill) {
    await page.evaluate(fillStorage, fill);
    if (worker) await page.evaluate(installWorker);
    const seen = await context.storageState({ indexedDB: true });
    await page.close();
    writeResult(seen);
  } else {
    const seen = { ...(await page.evaluate(readStorage)), ...(worker ? await page.evaluate(readWorker) : {}) };
    await (state ? context : page).close();
    writeResult(seen);
  }
} finally {
  await browser.close();
}
