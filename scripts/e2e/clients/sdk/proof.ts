// Uses the SDK beyond the examples of its README: the test cuts sockets in the middle of a click.
import { writeFile, readFile, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { InvalidRequest, NotFound, Svc, SvcError, Unauthorized, Unavailable } from "@browser-svc/sdk";

const worker = "https://worker.example";
const site = "https://shop.example";
const key = process.env["SVC_API_KEY"]!;
const svc = new Svc({ worker: ["http://127.0.0.1:38923", worker], key });

const failure = async (call: Promise<unknown>): Promise<SvcError> => {
  const error: unknown = await call.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof SvcError)) throw new Error(`want a SvcError, got ${String(error)}`);
  return error;
};
const require = (name: string, holds: boolean): void => {
  if (!holds) throw new Error(name);
};

const invalid = await failure(svc.launch({ viewport: { width: 1, height: 100 } }));
require(`an invalid request names its field: ${String(invalid)} ${JSON.stringify(invalid.details)}`, invalid instanceof
  InvalidRequest && invalid.details[0]!.field === "browser.viewport.width");
require("an invalid request has an id", invalid.requestId !== "");
require("a wrong key is refused", (await failure(new Svc({ worker, key: "wrong" }).launch())) instanceof Unauthorized);
require("a missing session is not found", (await failure(
  new Svc({ worker, key }).sessions.get(crypto.randomUUID()),
)) instanceof NotFound);
const silent = new Svc({ worker: "http://127.0.0.1:38923", key, retries: 1 });
require("a worker that does not exist is unavailable", (await failure(silent.launch())) instanceof Unavailable);
const aborted = await new Svc({ worker, key })
  .launch({ signal: AbortSignal.abort(new Error("stop")) })
  .catch((cause: Error) => cause.message);
require("an aborted launch throws the reason", aborted === "stop");

const session = await svc.launch({ headless: true });
const again = await new Svc({ worker, key }).sessions.get(session.id);

/** Fails unless the failure comes before the client would notice a silent connection. */
const soon = async (call: Promise<unknown>): Promise<SvcError> => {
  const began = Date.now();
  const error = await failure(call);
  require(`a refused connection fails soon: ${Date.now() - began} ms`, Date.now() - began < 2000);
  return error;
};
const browser = await session.playwright();
const page = await browser.newPage();
const events: string[] = [];
page.on("console", (message) => message.text().startsWith("click") && events.push(message.text()));
await page.goto(`${site}/`);
for (let i = 0; i < 5; i++) await page.click("#cut");
const clicks = await page.evaluate("clicks");
require(`every click happens once: ${String(clicks)}`, clicks === 5);
await page.waitForFunction("clicks === 5 && answers === 5");
require(`every event arrives once: ${events.join()}`, events.join() === "click 1,click 2,click 3,click 4,click 5");
const resumed = session.resumed;

const second = await session.puppeteer();
const tab = await second.newPage();
await tab.goto(`${site}/`);
const large = new Uint8Array(40 << 20).fill(65);
await writeFile("large.bin", large);
await (await tab.waitForSelector("input[type=file]"))!.uploadFile("large.bin");
const size = await tab.evaluate("document.querySelector('#file').files[0].size");
require(`a large file is uploaded: ${String(size)}`, size === large.length);
const files: string[] = [];
for await (const file of session.files.list()) files.push(file.name);
require(`the upload is listed: ${files.join()}`, files.includes("large.bin"));
await session.files.save("large.bin", "copy/large.bin");
require("the file is saved", (await stat("copy/large.bin")).size === large.length);

const tooLarge = await (
  await tab.createCDPSession()
)
  .send("Runtime.evaluate", { expression: `"${"x".repeat(33_000_000)}"` })
  .catch((e: Error) => e.message);
require(`a message that is too large fails: ${String(tooLarge).slice(0, 200)}`, String(tooLarge).includes("32 MB"));
require("and the connection continues", (await tab.evaluate("6 * 7")) === 42);

const canceled = await session.waitForHuman({ reason: "Cancel this.", timeoutSeconds: 1 });
require(`the handover times out: ${canceled.status}`, canceled.status === "timeout");
const other = await again.puppeteer();
const failed = await again.end({ signal: AbortSignal.abort(new Error("stop")) }).catch((cause: Error) => cause.message);
require(`the call has failed: ${String(failed)}`, failed === "stop" && (await session.refresh()).status === "running");
require("its connections are closed", !other.connected);
const ended = await session.end();
require("the session has ended", ended.status === "killed");
await session.end();
const missing = await soon(again.connect());
require(`a browser that has ended is not found: ${String(missing)}`, missing instanceof NotFound);
if (browser.isConnected()) await new Promise((resolve) => browser.once("disconnected", resolve));
require("an ended session has no connection", (await failure(session.playwright())) instanceof SvcError);

const common = createRequire(`${process.cwd()}/`)("@browser-svc/sdk") as typeof import("@browser-svc/sdk");
require("CommonJS has the same exports", typeof common.Svc === "function" && typeof common.SvcCloud === "function");
console.log(JSON.stringify({ resumed, package: JSON.parse(await readFile("package.json", "utf8")).name }));
