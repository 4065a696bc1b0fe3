// Opens a page with an MCP server that drives the browser at an endpoint, evaluates an expression, takes a screenshot and
// returns the results. The servers take endpoints and headers only as arguments.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { fileURLToPath } from 'node:url';
import { tmpdir } from 'node:os';
import { input, writeResult } from '../input.mjs';

const { endpoint, headers, url, expression } = await input();
const program = (path) => fileURLToPath(new URL(`node_modules/${path}`, import.meta.url));
const script = `() => JSON.stringify([document.title, ${expression}, navigator.userAgent])`;
const servers = {
  '@playwright/mcp': {
    args: [program('@playwright/mcp/cli.js'), '--cdp-endpoint', endpoint, '--output-dir', tmpdir(),
      ...Object.entries(headers ?? {}).flatMap(([name, value]) => ['--cdp-header', `${name}: ${value}`])],
    open: ['browser_tabs', { action: 'new', url }],
    evaluate: ['browser_evaluate', { function: script }],
    screenshot: ['browser_take_screenshot', {}],
    close: ['browser_tabs', { action: 'close' }],
  },
  'chrome-devtools-mcp': {
    args: [program('chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js'), '--wsEndpoint', endpoint, '--no-usage-statistics',
      ...(headers ? ['--wsHeaders', JSON.stringify(headers)] : [])],
    open: ['new_page', { url }],
    evaluate: ['evaluate_script', { function: script }],
    screenshot: ['take_screenshot', {}],
  },
};
const server = servers[process.argv[2]];
const transport = new StdioClientTransport({ command: process.execPath, args: server.args, env: { ...process.env }, stderr: 'inherit' });
const client = new Client({ name: 'svc-e2e', version: '1.0.0' });
await client.connect(transport);
const call = async ([name, args]) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  if (isError) throw new Error(`${name}: ${content.map((part) => part.text).join('\n')}`);
  return content;
};
try {
  const opened = (await call(server.open)).map((part) => part.text).join('\n');
  const pageId = Number(opened.match(/(\d+): .*\[selected\]/)?.[1]); // of chrome-devtools-mcp
  if (pageId) for (const [, args] of [server.evaluate, server.screenshot]) args.pageId = pageId;
  const text = (await call(server.evaluate)).map((part) => part.text).join('\n');
  const quoted = text.match(/"(\[\\".*?\])"/); // a string in JSON
  const [title, value, agent] = JSON.parse(JSON.parse(`"${quoted[1]}"`));
  const picture = (await call(server.screenshot)).find((part) => part.type === 'image');
  writeResult({ title, value, version: agent.match(/Chrome\/([\d.]+)/)[1], screenshot: Buffer.from(picture.data, 'base64').length });
  if (server.close) await call(server.close);
} finally {
  await client.close();
}
