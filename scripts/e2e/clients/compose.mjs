// Runs one step of scripts/compose-check: sends a request to the worker or drives one of its browsers.
// Usage: node compose.mjs WORKER_URL STEP [ARGUMENT], with API_KEY and TOKEN in the environment.
import assert from 'node:assert/strict';
import puppeteer from 'puppeteer-core';
import WebSocket from 'ws';

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
  async drive(session) {
    const browser = await puppeteer.connect({ browserWSEndpoint: JSON.parse(session).webSocketDebuggerUrl });
    const page = await browser.newPage();
    await page.goto('data:text/html,<title>It works</title>');
    console.log(`  ${await browser.version()}: ${await page.title()}`);
    assert.equal(await page.title(), 'It works');
    assert.ok((await page.screenshot()).length > 1000);
    await page.setContent('<p>Latin \u6f22\u5b57 \u{1f600}</p>');
    const cdp = await page.createCDPSession();
    for (const domain of ['DOM', 'CSS']) await cdp.send(`${domain}.enable`);
    const { root } = await cdp.send('DOM.getDocument');
    const { nodeId } = await cdp.send('DOM.querySelector', { nodeId: root.nodeId, selector: 'p' });
    const { fonts } = await cdp.send('CSS.getPlatformFontsForNode', { nodeId });
    const families = fonts.map((font) => font.familyName).sort().join(', ');
    console.log(`  fonts: ${families}`);
    assert.match(families, /Liberation .*Noto Color Emoji.*Noto .*CJK/);
    const pixel = await page.evaluate(() => {
      const gl = document.createElement('canvas').getContext('webgl2');
      gl.clearColor(1, 0, 0, 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      const read = new Uint8Array(4);
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, read);
      return [...read].join();
    });
    console.log(`  WebGL 2 draws ${pixel}`);
    assert.equal(pixel, '255,0,0,255');
    await page.goto('chrome://sandbox');
    const layers = await page.$eval('#sandbox-status', (e) => e.innerText);
    console.log(`  ${layers.trim().replaceAll('\t', ': ').replaceAll('\n', ', ')}`);
    assert.match(layers, /Layer 1 Sandbox\s+Namespace/);
    assert.match(await page.$eval('#evaluation', (e) => e.innerText), /adequately sandboxed/);
    for (const address of ['http://postgres:5432', 'file:///proc/1/environ', 'file:///proc/7/environ', 'file:///keys/svc-key']) {
      const failed = await page.goto(address).then(() => null, (error) => error.message);
      const text = failed ?? (await page.evaluate(() => document.body.innerText));
      assert.ok(!text.includes('svc_') && !text.includes('wrk_'), `${address} shows a key`);
      assert.ok(failed, `${address} is reachable from the browser: ${text.slice(0, 80)}`);
      console.log(`  ${failed}`);
    }
    await browser.disconnect();
  },
  // view reads the desktop as the live view does, by the VNC protocol, and counts its colors.
  async view(session) {
    const socket = new WebSocket(JSON.parse(session).viewUrl.replace(/^http/, 'ws').replace('/view?', '/vnc?'));
    socket.binaryType = 'arraybuffer';
    let received = Buffer.alloc(0);
    let wake = () => {};
    socket.onmessage = ({ data }) => {
      received = Buffer.concat([received, Buffer.from(data)]);
      wake();
    };
    socket.onclose = () => wake();
    const read = async (length) => {
      while (received.length < length) {
        await new Promise((resolve) => (wake = resolve));
        assert.ok(socket.readyState === WebSocket.OPEN, 'the desktop stream was closed');
      }
      const part = received.subarray(0, length);
      received = received.subarray(length);
      return part;
    };
    const version = await read(12);
    socket.send(version);
    assert.ok((await read((await read(1))[0])).includes(1), 'the desktop requires a password');
    socket.send(Buffer.of(1));
    assert.equal((await read(4)).readUInt32BE(), 0);
    socket.send(Buffer.of(1));
    const screen = Buffer.from(await read(24));
    await read(screen.readUInt32BE(20)); // the name
    socket.send(Buffer.of(2, 0, 0, 1, 0, 0, 0, 0)); // raw encoding
    socket.send(Buffer.concat([Buffer.of(3, 0, 0, 0, 0, 0), screen.subarray(0, 4)]));
    const colors = new Set();
    for (let left = (await read(4)).readUInt16BE(2); left > 0; left--) {
      const area = Buffer.from(await read(12));
      const pixels = await read(area.readUInt16BE(4) * area.readUInt16BE(6) * 4);
      for (let at = 0; at < pixels.length; at += 4) colors.add(pixels.readUInt32LE(at));
    }
    socket.close();
    console.log(`  ${version.toString().trim()}, ${screen.readUInt16BE(0)}x${screen.readUInt16BE(2)}, ${colors.size} colors`);
    assert.ok(colors.size > 10, 'the desktop is blank');
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
