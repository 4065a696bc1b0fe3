import { NotFound } from "./errors.js";
import { Files, LocalFiles } from "./files.js";
import type { CallOptions, Http } from "./http.js";
import * as libraries from "./libraries.js";
import { readEvents } from "./events.js";
import { SessionRecording } from "./recording.js";
import { ResumableConnection, type Transport } from "./resume.js";
import type { Handover, LogEntry, SessionInfo, StorageState, WorkerSchemas } from "./types.js";

export interface HumanRequest extends CallOptions {
  /** What the person is to do. */
  reason: string;
  /** How long to wait, in seconds; 600 by default. */
  timeoutSeconds?: number;
  /** Gets the address of the live view for the person. It opens once. */
  onWaiting?: (viewUrl: string) => void | Promise<void>;
}

/** A running browser. */
export class Session {
  /** Downloads and uploads. */
  readonly files: Files;
  readonly recording: SessionRecording;
  readonly #http: Http;
  readonly #connections = new Set<ResumableConnection>();
  #info: SessionInfo;

  constructor(http: Http, info: SessionInfo) {
    // Behind a load balancer, the address of the session is that of its worker.
    const address = info.webSocketDebuggerUrl && http.reach(info.webSocketDebuggerUrl).replace(/^ws/, "http");
    this.#http = address ? http.withBase(address.slice(0, address.indexOf("/browsers/"))) : http;
    this.#info = info;
    this.files = new Files(this.#http, info.launchId);
    this.recording = new SessionRecording(this.#http, info);
  }

  get id(): string {
    return this.#info.id;
  }

  /** What the worker said last; `refresh` updates it. */
  get info(): SessionInfo {
    return this.#info;
  }

  async refresh(options?: CallOptions): Promise<SessionInfo> {
    return (this.#info = await this.#http.json("GET", `/sessions/${this.id}`, options));
  }

  /** Renames, labels or extends the session. */
  async update(change: WorkerSchemas["UpdateBrowserSessionRequest"], options?: CallOptions): Promise<SessionInfo> {
    return (this.#info = await this.#http.json("PATCH", `/sessions/${this.id}`, { ...options, body: change }));
  }

  /** Returns a browser of your Playwright. The connection continues on a new socket after a break, and files are those of this machine. */
  async playwright(options?: libraries.PlaywrightOptions): Promise<libraries.PlaywrightBrowser> {
    return this.#use((transport) => libraries.connectPlaywright(transport, options));
  }

  /** Returns a browser of your Puppeteer, like `playwright`. */
  async puppeteer(options?: libraries.PuppeteerOptions): Promise<libraries.PuppeteerBrowser> {
    return this.#use((transport) => libraries.connectPuppeteer(transport, options));
  }

  /** Opens a CDP connection that continues on a new socket after a break, for other clients. */
  async connect(): Promise<Transport> {
    const address = this.#info.webSocketDebuggerUrl;
    if (!address) {
      const message = "The session has ended. Launch another one.";
      throw new NotFound({ code: "RESOURCE_NOT_FOUND", message, status: 0, details: [], requestId: "" });
    }
    const connection = await ResumableConnection.open(
      this.#http.reach(address).replace(/\?.*/, ""),
      this.#http.headers,
    );
    this.#connections.add(connection);
    return new LocalFiles(connection, this.files, () => this.#connections.delete(connection));
  }

  /** How often connections of this session have continued on a new socket. */
  get resumed(): number {
    return [...this.#connections].reduce((sum, connection) => sum + connection.resumed, 0);
  }

  /** The address of the live view without a token: a person signs in with the key of the worker. Undefined after the end. */
  get consoleUrl(): string | undefined {
    const address = this.#info.viewUrl;
    return address ? this.#http.reach(address).replace(/[?#].*/, "") : undefined;
  }

  /** Returns the address of the live view, which opens once. With `control`, the person can use the browser. */
  async liveView(options: CallOptions & { ttlSeconds?: number; control?: boolean } = {}): Promise<string> {
    const { ttlSeconds, control, ...call } = options;
    const body = ttlSeconds === undefined ? {} : { ttlSeconds };
    const path = `/browsers/${this.#info.launchId}/view-ticket`;
    const ticket = await this.#http.json<WorkerSchemas["ViewTicket"]>("POST", path, { ...call, body });
    return this.#http.reach(control ? ticket.controlUrl.replace("/?", "/view?") : ticket.viewUrl);
  }

  /**
   * Hands the browser to a person and waits. Calls of all clients wait, too. The status of the result is `done`, `timeout`
   * or `canceled`. An aborted signal cancels the handover.
   */
  async waitForHuman(request: HumanRequest): Promise<Handover> {
    const { reason, timeoutSeconds, onWaiting, ...call } = request;
    const path = `/browsers/${this.#info.launchId}/handover`;
    const started = await this.#http.json<WorkerSchemas["StartedHandover"]>("POST", path, {
      ...call,
      body: { reason, timeoutSeconds },
    });
    try {
      await onWaiting?.(this.#http.reach(started.viewUrl));
      for (;;) {
        const handover = await this.#http.json<Handover>("GET", path, {
          timeout: 90_000,
          ...call,
          query: { waitSeconds: 60 },
        });
        if (handover.status !== "open") return handover;
      }
    } catch (cause) {
      await this.#http.json("DELETE", path).catch(() => {}); // it may have ended
      throw cause;
    }
  }

  /** Returns cookies and storage, for `state` of a launch and for Playwright's `storageState`. */
  async state(options: CallOptions & { indexedDB?: boolean } = {}): Promise<StorageState> {
    const { indexedDB, ...call } = options;
    return this.#http.json("GET", `/browsers/${this.#info.launchId}/state`, { ...call, query: { indexedDB } });
  }

  /** Yields console messages, exceptions and failed requests until the session ends. */
  async *logs(options: CallOptions = {}): AsyncGenerator<LogEntry, void, undefined> {
    for await (const event of readEvents(this.#http, `/browsers/${this.#info.launchId}/logs`, options)) {
      if (event.type === "entry") yield JSON.parse(event.data) as LogEntry;
      if (event.type === "end") return;
    }
  }

  /** Ends the browser, and closes the connections of this object also if the call fails. */
  async end(options?: CallOptions): Promise<SessionInfo> {
    try {
      return (this.#info = await this.#http.json("DELETE", `/sessions/${this.id}`, { timeout: 120_000, ...options }));
    } finally {
      for (const connection of this.#connections) connection.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  async #use<T>(connect: (transport: Transport) => Promise<T>): Promise<T> {
    const transport = await this.connect();
    try {
      return await connect(transport);
    } catch (cause) {
      transport.close();
      throw cause;
    }
  }
}
