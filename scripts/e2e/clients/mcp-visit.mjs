// Opens a page over /mcp with the SDK's client, takes a screenshot and returns the results. There are no scripts.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { input, writeResult } from './input.mjs';

const { endpoint, headers, url } = await input();
const transport = new StreamableHTTPClientTransport(new URL(endpoint), { requestInit: { headers } });
const client = new Client({ name: 'svc-e2e', version: '1.0.0' });
await client.connect(transport);
const call = async (name, args = {}) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  if (isError) throw new Error(`${name}: ${content[0].text}`);
  return content;
};
try {
  await call('launch_browser');
  const [opened] = await call('navigate', { url });
  const picture = (await call('screenshot')).find((part) => part.type === 'image');
  writeResult({ title: opened.text.match(/title "(.*?)"/)[1], screenshot: Buffer.from(picture.data, 'base64').length });
} finally {
  await transport.terminateSession();
  await client.close();
}
