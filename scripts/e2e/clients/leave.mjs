// Closes a resumable connection while its socket is cut off.
import WebSocket from 'ws';
import { input, writeResult } from './input.mjs';
import { ResumingTransport } from './transport.mjs';

const { endpoint } = await input();
const transport = new ResumingTransport(endpoint, WebSocket);
while (transport.cuts === 0) await new Promise(setImmediate);
transport.close();
writeResult({ cuts: transport.cuts });
