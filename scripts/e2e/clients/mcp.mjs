// Drives a browser over /mcp with the SDK's client: opens a page with a form, fills and submits it by references of
// snapshots, and ends the session without ending the browser. Returns what the tools said.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { input, writeResult } from './input.mjs';

const { endpoint, key, profileId, url } = await input();
const transport = new StreamableHTTPClientTransport(new URL(endpoint), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
const client = new Client({ name: 'svc-e2e', version: '1.0.0' });
await client.connect(transport);
const texts = [];
const call = async (name, args = {}) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  const text = content.map((part) => part.text ?? `[${part.mimeType}]`).join('\n');
  texts.push(text);
  if (isError) throw new Error(`${name}: ${text}`);
  return text;
};
const find = async (label) => (await call('snapshot')).split(label)[1].match(/\[ref=(e\d+)\]/)[1];

const { tools } = await client.listTools();
const launched = await call('launch_browser', { profileId });
await call('navigate', { url });
await call('type', { ref: await find('textbox "Name"'), text: 'Ada Lovelace' });
await call('select_option', { ref: await find('combobox "Color"'), values: ['Green'] });
await call('click', { ref: await find('button "Send"') });
const submitted = await call('wait_for', { text: 'Ada Lovelace likes', seconds: 50 }); // click waits ten seconds at most
const picture = await call('screenshot');
const read = await call('read_page');
await transport.terminateSession();
await client.close();
writeResult({ tools: tools.map((tool) => tool.name), launched, submitted, picture, read, all: texts.join('\n') });
