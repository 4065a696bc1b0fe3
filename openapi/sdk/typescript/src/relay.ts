import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";
import type { Transport } from "./resume.js";

/** A WebSocket address of this machine for one client, which talks over a transport. */
export interface Relay {
  address: string;
  close(): void;
}

/**
 * Opens a relay for clients that take only an address, such as Playwright. The path is secret, and the relay stops
 * listening with the first client. The end of either side ends the other.
 */
export async function openRelay(transport: Transport): Promise<Relay> {
  const server = createServer((_request, response) => response.writeHead(404).end());
  const path = `/${crypto.randomUUID()}`;
  const sockets = new WebSocketServer({ server, path, perMessageDeflate: false, maxPayload: 256 << 20 });
  const close = (): void => {
    sockets.close();
    for (const client of sockets.clients) client.close(1000);
    server.close();
    transport.close();
  };
  transport.onclose = close;
  sockets.on("connection", (client) => {
    if (sockets.clients.size > 1) return client.close(1008);
    server.close();
    client.on("message", (data) => transport.send(String(data)));
    client.on("error", () => client.terminate());
    client.on("close", close);
    transport.onmessage = (message) => client.send(message);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return { address: `ws://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, close };
}
