// Signs in to a site with a secret, over /mcp and with playwright. Returns what the site has said, and everything that
// the tools and the CDP calls have returned.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { chromium } from 'playwright-core';
import { input, writeResult } from './input.mjs';

const { mcp, key, profileId, cdp, url, secret } = await input();
const texts = [];
const fields = { User: 'username', Password: 'password', Code: 'totp' };

async function signInByTools() {
  const transport = new StreamableHTTPClientTransport(new URL(mcp), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
  const client = new Client({ name: 'svc-e2e', version: '1.0.0' });
  await client.connect(transport);
  const call = async (name, args = {}) => {
    const answer = await client.callTool({ name, arguments: args });
    texts.push(JSON.stringify(answer));
    const text = answer.content.map((part) => part.text ?? '').join('\n');
    if (answer.isError) throw new Error(`${name}: ${text}`);
    return text;
  };
  const find = async (label) => (await call('snapshot')).split(label)[1].match(/\[ref=(e\d+)\]/)[1];
  await call('launch_browser', { profileId });
  await call('navigate', { url });
  for (const [label, field] of Object.entries(fields)) await call('fill_secret', { ref: await find(`textbox "${label}"`), secret, field });
  await call('screenshot');
  await call('snapshot');
  await call('click', { ref: await find('button "Sign in"') });
  const read = await call('read_page');
  await transport.terminateSession();
  await client.close();
  return read;
}

async function signInWithPlaywright() {
  const browser = await chromium.connectOverCDP(cdp);
  try {
    const page = await browser.contexts()[0].newPage();
    const session = await page.context().newCDPSession(page);
    session.on('event', (event) => texts.push(JSON.stringify(event)));
    await page.goto(url);
    for (const [label, field] of Object.entries(fields)) {
      texts.push(JSON.stringify(await session.send('Svc.fillSecret', { secret, field, selector: `[aria-label=${label}]` })));
    }
    texts.push(await page.content());
    await page.getByRole('button').click();
    const read = page.locator('h1').innerText();
    return await read;
  } finally {
    await browser.close();
  }
}

const tools = await signInByTools();
const playwright = await signInWithPlaywright();
writeResult({ tools, playwright, all: texts.join('\n') });
