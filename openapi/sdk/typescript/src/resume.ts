import WebSocket from "ws";
import { networkError, newError, SvcError } from "./errors.js";

/** A CDP connection: the transport that `puppeteer.connect` takes. */
export interface Transport {
  send(message: string): void;
  close(): void;
  onmessage?: ((message: string) => void) | undefined;
  onclose?: (() => void) | undefined;
}

const keptFor = 30_000; // ms, as long as the worker keeps a connection
const heartbeat = 5_000; // ms
const acknowledgedBytes = 4 << 20; // a fraction of what the worker buffers
const longestMessage = 32_000_000; // bytes that the worker accepts

/**
 * A CDP connection that continues on a new socket after a break (`connectBrowser` in the API document): every message
 * is delivered once, in order. It counts the messages that it receives, and keeps those that the worker has not
 * confirmed. A close frame ends it; a socket that breaks has the status 1006.
 */
export class ResumableConnection implements Transport {
  onmessage?: ((message: string) => void) | undefined;
  onclose?: (() => void) | undefined;
  /** How often the connection has continued on a new socket. */
  resumed = 0;
  readonly #address: URL;
  readonly #headers: Record<string, string>;
  readonly #timer: NodeJS.Timeout;
  readonly #opened: Promise<void>;
  #open: () => void = () => {};
  #fail: (error: SvcError) => void = () => {};
  #socket: WebSocket | undefined;
  #ready = false; // the worker has confirmed what it received
  #isOpen = false; // the first socket was ready
  #closed = false;
  #silent = 0; // heartbeats since the last message of the worker
  #received = 0;
  #unacknowledged = 0; // bytes received since the last acknowledgement
  #confirmed = 0; // messages that the worker has received; #pending has the later ones
  #pending: string[] = [];
  #brokenAt = Date.now();
  #attempts = 0; // since the socket broke

  private constructor(address: string, headers: Record<string, string>) {
    this.#address = new URL(address);
    this.#address.searchParams.set("client", crypto.randomUUID());
    this.#headers = headers;
    this.#opened = new Promise((resolve, reject) => ([this.#open, this.#fail] = [resolve, reject]));
    this.#timer = setInterval(() => this.#beat(), heartbeat);
    this.#connect();
  }

  /** Opens a connection to the browser with this WebSocket address. */
  static async open(address: string, headers: Record<string, string>): Promise<ResumableConnection> {
    const connection = new ResumableConnection(address, headers);
    await connection.#opened;
    return connection;
  }

  send(message: string): void {
    if (this.#closed) return;
    if (message.length > longestMessage / 3 && Buffer.byteLength(message) > longestMessage) {
      return this.#refuse(message);
    }
    this.#pending.push(message);
    if (this.#ready) this.#socket?.send(message);
  }

  close(): void {
    if (this.#closed) return;
    this.#end();
    this.#socket?.close(1000);
    this.onclose?.();
  }

  #end(): void {
    this.#closed = true;
    this.#ready = false;
    this.#pending = [];
    clearInterval(this.#timer);
  }

  #connect(): void {
    if (this.#closed) return;
    this.#silent = 0;
    this.#address.searchParams.set("resume", String(this.#received));
    const options = {
      headers: this.#headers,
      perMessageDeflate: false,
      maxPayload: 256 << 20,
      handshakeTimeout: 10_000,
    };
    const socket = (this.#socket = new WebSocket(this.#address, options));
    let error: SvcError | undefined;
    socket.on(
      "error",
      (cause) => (error ??= networkError(`The connection to the browser failed: ${cause.message}.`, cause)),
    );
    socket.on("unexpected-response", (_request, response) => {
      error = newError(response.statusCode ?? 0, {}, (name) => response.headers[name] as string | undefined);
      socket.terminate(); // "error" and "close" follow, as they do not if only the request is destroyed
    });
    socket.on("message", (data) => socket === this.#socket && this.#receive(String(data)));
    socket.on("close", (code, reason) => {
      if (socket === this.#socket)
        this.#broken(code, error ?? networkError(`The connection has ended: ${code} ${reason}`));
    });
  }

  #receive(message: string): void {
    this.#silent = 0;
    if (message.startsWith('{"method":"Svc.')) {
      const { method, params } = JSON.parse(message) as { method: string; params: { received: number } };
      return this.#confirm(method, params.received);
    }
    this.#received++;
    this.#unacknowledged += message.length;
    if (this.#unacknowledged > acknowledgedBytes) this.#acknowledge();
    this.onmessage?.(message);
  }

  /** Forgets the messages that the worker has received and, on a new socket, sends the others again. */
  #confirm(method: string, received: number): void {
    this.#pending.splice(0, received - this.#confirmed);
    this.#confirmed = received;
    if (method !== "Svc.resumed") return;
    this.#ready = true;
    this.#attempts = 0;
    if (this.#isOpen) this.resumed++;
    this.#isOpen = true;
    this.#open();
    for (const message of this.#pending) this.#socket?.send(message);
  }

  #broken(code: number, error: SvcError): void {
    if (this.#closed) return;
    if (this.#ready) this.#brokenAt = Date.now();
    this.#ready = false;
    const isFinal =
      code !== 1006 || (error.status >= 300 && error.status < 500) || (!this.#isOpen && error.status !== 0);
    if (!isFinal && Date.now() - this.#brokenAt < (this.#isOpen ? keptFor : heartbeat)) {
      setTimeout(() => this.#connect(), Math.min(10 * 2 ** this.#attempts++, 1_000));
      return;
    }
    this.#end();
    this.#fail(error);
    this.onclose?.();
  }

  #acknowledge(): void {
    this.#unacknowledged = 0;
    this.#socket?.send(`{"method":"Svc.ack","params":{"seq":${this.#received}}}`);
  }

  /** Sends an acknowledgement, which the worker answers. A socket that stays silent hangs, and a new one replaces it. */
  #beat(): void {
    if (++this.#silent <= 3) {
      if (this.#ready) this.#acknowledge();
      return;
    }
    const socket = this.#socket;
    this.#socket = undefined;
    this.#broken(1006, networkError("The connection to the browser hangs."));
    socket?.terminate();
  }

  /** Answers a call that the worker would end the connection for. */
  #refuse(message: string): void {
    const { id, sessionId } = JSON.parse(message) as { id: number; sessionId?: string };
    const text = "The message is larger than 32 MB. Upload large files with session.files.upload().";
    const answer = { id, sessionId, error: { code: -32000, message: text } };
    queueMicrotask(() => this.onmessage?.(JSON.stringify(answer)));
  }
}
