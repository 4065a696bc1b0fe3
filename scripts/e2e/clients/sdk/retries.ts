// Answers calls of the SDK as a server under load does, and checks what the SDK sends again.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { RateLimited, Svc, SvcCloud, SvcError, Unauthorized, Unavailable } from "@browser-svc/sdk";

const seen: string[] = []; // the method and the idempotency key of each request
let answers: [status: number, code: string, retryAfter?: string][] = [];
const server = createServer((request, response) => {
  seen.push(`${request.method} ${String(request.headers["idempotency-key"] ?? "")}`);
  const [status, code, retryAfter] = answers.shift() ?? [200, ""];
  if (status === 0) return; // no answer
  if (retryAfter) response.setHeader("Retry-After", retryAfter);
  const data = { items: [], pagination: { hasNext: false }, id: "1" };
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(
    JSON.stringify(status < 300 ? { success: true, data } : { success: false, error: { code, message: code } }),
  );
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const cloud = new SvcCloud({ cloud: address, token: "token" });
const svc = new Svc({ worker: address, key: "key" });
const full: [number, string] = [503, "EXTERNAL_SERVICE_ERROR"];

/** Makes a call with these answers. It returns the error, and how many requests were sent with how many keys. */
async function send(
  given: typeof answers,
  call: () => Promise<unknown>,
): Promise<[error: unknown, requests: number, keys: number]> {
  answers = given;
  seen.length = 0;
  const error: unknown = await call().then(
    () => undefined,
    (cause: unknown) => cause,
  );
  return [error, seen.length, new Set(seen.filter((request) => !request.endsWith(" "))).size];
}

const check = (
  name: string,
  [error, ...counts]: [unknown, number, number],
  want: [typeof SvcError | undefined, number, number],
): void => {
  const isExpected = want[0] ? error instanceof want[0] : error === undefined;
  if (!isExpected || counts.join() !== want.slice(1).join())
    throw new Error(`${name}: ${String(error)}, ${counts.join()}`);
};

const profile = { name: "checkout", browserVersion: 156 };
check("a creation is repeated with its key", await send([full, full], () => cloud.profiles.create(profile)), [
  undefined,
  3,
  1,
]);
check("a change is not repeated", await send([full], () => cloud.profiles.update("1", {})), [Unavailable, 1, 0]);
check("a deletion is repeated", await send([[500, "INTERNAL_ERROR"]], () => cloud.profiles.delete("1")), [
  undefined,
  2,
  0,
]);
const began = Date.now();
check("a read waits", await send([[429, "RATE_LIMIT_EXCEEDED", "1"]], () => cloud.machines().next()), [
  undefined,
  2,
  0,
]);
if (Date.now() - began < 1000) throw new Error("Retry-After was ignored");
const late: [number, string, string] = [429, "RATE_LIMIT_EXCEEDED", "3600"];
check("a long wait is left to the caller", await send([late], () => cloud.license()), [RateLimited, 1, 0]);
check("a full worker is tried again", await send([full], () => svc.launch()), [undefined, 2, 0]);
check("a launch that may have started is not", await send([[500, "INTERNAL_ERROR"]], () => svc.launch()), [
  Unavailable,
  1,
  0,
]);
check("neither is one without an answer", await send([[0, ""]], () => svc.launch({ timeout: 100 })), [
  Unavailable,
  1,
  0,
]);

const servers = [server];
async function listen(handle: RequestListener): Promise<string> {
  const other = createServer(handle);
  servers.push(other);
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
}

let strangers = 0;
const stranger = await listen((_request, response) => {
  strangers++;
  response.end();
});
const moved = await listen((request, response) => {
  response.writeHead(307, { Location: stranger + request.url }).end();
});
const redirected: unknown = await new Svc({ worker: moved, key: "key" }).sessions
  .get("1")
  .catch((cause: unknown) => cause);
if (strangers > 0 || !String(redirected).includes(`redirects to ${stranger}/sessions/1`))
  throw new Error(`a redirect was followed ${strangers} times: ${String(redirected)}`);

const guarded = await listen((request, response) => {
  const isConnection = request.headers.upgrade !== undefined;
  const address = `ws://${request.headers.host}/browsers/1/devtools/browser/1`;
  response.writeHead(isConnection ? 401 : 200, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ data: { id: "1", launchId: "1", webSocketDebuggerUrl: address } }));
});
const session = await new Svc({ worker: guarded, key: "wrong" }).sessions.get("1");
const connected = Date.now();
const refused: unknown = await session.connect().catch((cause: unknown) => cause);
if (!(refused instanceof Unauthorized) || Date.now() - connected > 2000)
  throw new Error(`a refused connection fails after ${Date.now() - connected} ms: ${String(refused)}`);

let waits: number[] = []; // of the launches on full workers
const fullWorker: RequestListener = async (request, response) => {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  const { waitSeconds } = JSON.parse(body) as { waitSeconds: number };
  waits.push(waitSeconds);
  await new Promise((resolve) => setTimeout(resolve, waitSeconds * 1000));
  response.writeHead(503, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ success: false, error: { code: full[1], message: "full" } }));
};
const busy = [await listen(fullWorker), await listen(fullWorker)];

/** Launches on these workers. It returns whether that succeeded, and the waits of the full workers. */
async function launch(worker: string[], waitSeconds: number): Promise<string> {
  waits = [];
  const began = Date.now();
  const succeeded = await new Svc({ worker, key: "key" }).launch({ waitSeconds }).then(
    () => true,
    () => false,
  );
  const isLate = Date.now() - began > (succeeded ? 1000 : waitSeconds * 1000 + 1000);
  return `${succeeded} ${waits.join()}${isLate ? " late" : ""}`;
}
const launches = [
  await launch([busy[0]!, address], 30), // the second has capacity
  await launch([busy[0]!], 1),
  await launch(busy, 1),
  await launch(["http://127.0.0.1:38923", busy[0]!], 1),
];
if (launches.join("; ") !== "true 0; false 1; false 0,0,1; false 0,1")
  throw new Error(`the waits of launches are ${launches.join("; ")}`);
console.log("passed");
for (const one of servers) {
  one.closeAllConnections();
  one.close();
}
