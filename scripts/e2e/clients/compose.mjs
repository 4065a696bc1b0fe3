// Runs one step of scripts/compose-check: sends a request to the worker or drives one of its browsers.
// Usage: node compose.mjs WORKER_URL STEP [ARGUMENT], with API_KEY and TOKEN in the environment.
import assert from 'node:assert/strict';
import puppeteer from 'puppeteer-core';

const [worker, step, argument] = process.argv.slice(2);

async function call(method, path, body) {
  const headers = { 'X-API-Key': process.env.API_KEY, 'Content-Type': 'application/json' };
  const response = await fetch(worker + path, { method, headers, body: body && JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

const steps = {
  async createProfile(cloud) {
    const headers = { Authorization: `Bearer ${process.env.TOKEN}`, 'Content-Type': 'application/json' };
    const { body: installed } = await call('GET', '/profiles/versions');
    const body = JSON.stringify({ name: 'First profile', browserVersion: installed.data.versions[0] });
    const response = await fetch(`${cloud}/v1/profiles`, { method: 'POST', headers, body });
    const created = await response.json();
    assert.equal(response.status, 201, JSON.stringify(created));
    console.log(created.data.id);
  },
  async launch(request) {
    const { status, body } = await call('POST', '/sessions/profile', JSON.parse(request));
    assert.equal(status, 201, JSON.stringify(body));
    console.log(JSON.stringify(body.data));
  },
  async launchWithoutKey(request) {
    const { status, body } = await call('POST', '/sessions/profile', JSON.parse(request));
    assert.equal(status, 503, JSON.stringify(body));
    console.log(`  ${status} ${body.error.code}: ${body.error.message}`);
  },
  async drive(session) {
    const browser = await puppeteer.connect({ browserWSEndpoint: JSON.parse(session).webSocketDebuggerUrl });
    const page = await browser.newPage();
    await page.goto('data:text/html,<title>It works</title>');
    console.log(`  ${await browser.version()}: ${await page.title()}`);
    assert.equal(await page.title(), 'It works');
    assert.ok((await page.screenshot()).length > 1000);
    await page.goto('chrome://sandbox');
    const layers = await page.$eval('#sandbox-status', (e) => e.innerText);
    console.log(`  ${layers.trim().replaceAll('\t', ': ').replaceAll('\n', ', ')}`);
    assert.match(layers, /Layer 1 Sandbox\s+Namespace/);
    assert.match(await page.$eval('#evaluation', (e) => e.innerText), /adequately sandboxed/);
    for (const address of ['http://postgres:5432', 'file:///proc/1/environ', 'file:///proc/7/environ', 'file:///password/cloud']) {
      const failed = await page.goto(address).then(() => null, (error) => error.message);
      const text = failed ?? (await page.evaluate(() => document.body.innerText));
      assert.ok(!text.includes('svc_') && !text.includes('wrk_'), `${address} shows a key`);
      assert.ok(failed, `${address} is reachable from the browser: ${text.slice(0, 80)}`);
      console.log(`  ${failed}`);
    }
    await browser.disconnect();
  },
  async end(session) {
    const { id } = JSON.parse(session);
    const { status, body } = await call('DELETE', `/sessions/${id}`);
    assert.equal(status, 200, JSON.stringify(body));
    const ended = (await call('GET', `/sessions/${id}`)).body.data;
    console.log(`  ${ended.status} (${ended.endReason})`);
    assert.equal(ended.status, 'killed');
  },
};
await steps[step](argument);
