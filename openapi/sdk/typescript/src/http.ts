import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { networkError, readError, SvcError, Unavailable } from "./errors.js";

/** Settings of a client. */
export interface ClientOptions {
  /** How long a request may take without an answer, in milliseconds; 30,000 by default. */
  timeout?: number;
  /** How often a safe request is repeated after a transient failure; 3 by default. */
  retries?: number;
}

/** Settings of one call. */
export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal | undefined;
  /** As in `ClientOptions`. */
  timeout?: number | undefined;
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

interface RequestOptions extends CallOptions {
  query?: object | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether the request can be repeated after this failure; by default if the method is idempotent. */
  canRepeat?: (failure: SvcError) => boolean;
}

const longestDelay = 30_000;

/** Sends requests to one server. */
export class Http {
  readonly base: string;
  readonly headers: Record<string, string>;
  readonly retries: number;
  readonly timeout: number;

  constructor(base: string, headers: Record<string, string>, options: ClientOptions = {}) {
    this.base = base.replace(/\/+$/, "");
    this.headers = headers;
    this.retries = options.retries ?? 3;
    this.timeout = options.timeout ?? 30_000;
  }

  /** Returns a client with the same settings for another address. */
  withBase(base: string): Http {
    return new Http(base, this.headers, this);
  }

  /** Returns an address that the server has named. Without `PUBLIC_URL`, a worker names itself `localhost`. */
  reach(address: string): string {
    const own = new URL(this.base);
    const url = new URL(address);
    if (url.hostname !== "localhost" || own.hostname === "localhost") return address;
    url.host = own.host;
    url.protocol = url.protocol.startsWith("ws") ? own.protocol.replace("http", "ws") : own.protocol;
    return url.href;
  }

  /** Returns `data` of the answer. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    return this.send(method, path, options, async (response) => ((await response.json()) as { data: T }).data);
  }

  /** Returns the answer, whose body the caller reads without a deadline. */
  async stream(path: string, options: RequestOptions = {}): Promise<Response> {
    return this.send("GET", path, options, (response) => response);
  }

  /** Stores the answer in a file, which is complete or does not exist. */
  async save(path: string, file: string, options: RequestOptions = {}): Promise<void> {
    const response = await this.stream(path, options);
    await mkdir(dirname(file), { recursive: true });
    const part = `${file}.${crypto.randomUUID().slice(0, 8)}.part`;
    try {
      const body = response.body
        ? Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0])
        : Readable.from([]);
      await pipeline(body, createWriteStream(part), options.signal ? { signal: options.signal } : {});
      await rename(part, file);
    } catch (cause) {
      await rm(part, { force: true });
      throw cause;
    }
  }

  /** Yields all items of a paginated list. */
  async *pages<T>(
    path: string,
    query: object | undefined,
    options: CallOptions = {},
  ): AsyncGenerator<T, void, undefined> {
    for (let page = 1, more = true; more; page++) {
      const answer = await this.json<{ items: T[]; pagination: { hasNext: boolean } }>("GET", path, {
        ...options,
        query: { limit: 100, ...query, page },
      });
      yield* answer.items;
      more = answer.pagination.hasNext;
    }
  }

  private async send<T>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (r: Response) => T | Promise<T>,
  ): Promise<T> {
    const canRepeat = options.canRepeat ?? (method === "POST" || method === "PATCH" ? wasNotSent : isTransient);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.attempt(method, path, options, read);
      } catch (error) {
        if (!(error instanceof SvcError) || attempt >= this.retries || !canRepeat(error)) throw error;
        await pause(error, attempt, options.signal);
      }
    }
  }

  private async attempt<T>(
    method: string,
    path: string,
    o: RequestOptions,
    read: (r: Response) => T | Promise<T>,
  ): Promise<T> {
    const deadline = new AbortController();
    const timeout = o.timeout ?? this.timeout;
    const timer = setTimeout(() => deadline.abort(), timeout);
    const isStream = o.body instanceof Readable;
    const headers: Record<string, string> = { ...this.headers, ...o.headers };
    if (o.body !== undefined) headers["Content-Type"] = isStream ? "application/octet-stream" : "application/json";
    let body: BodyInit | null = null;
    if (isStream) body = Readable.toWeb(o.body as Readable) as ReadableStream;
    else if (o.body !== undefined) body = JSON.stringify(o.body);
    try {
      const response = await fetch(this.base + path + encodeQuery((o.query ?? {}) as Query), {
        method,
        headers,
        body,
        redirect: "manual", // another host must not get the key
        signal: o.signal ? AbortSignal.any([o.signal, deadline.signal]) : deadline.signal,
        ...(isStream ? { duplex: "half" } : {}),
      } as RequestInit);
      if (!response.ok) throw await readError(response);
      return await read(response);
    } catch (cause) {
      o.signal?.throwIfAborted();
      if (cause instanceof SvcError) throw cause;
      const host = new URL(this.base).host;
      if (deadline.signal.aborted) throw networkError(`${host} did not answer within ${timeout} ms.`, cause);
      throw networkError(`${host} cannot be reached: ${reasonOf(cause)}. Check the address and the network.`, cause);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Waits before the next attempt: for `Retry-After`, or for a growing random time. It throws if that takes too long. */
export async function pause(
  error: SvcError,
  attempt: number,
  signal?: AbortSignal,
  longest = longestDelay,
): Promise<void> {
  const delay = error.retryAfter ? error.retryAfter * 1000 : 250 * 2 ** attempt * (0.5 + Math.random());
  if (delay > Math.min(longest, longestDelay)) throw error;
  await sleep(delay, undefined, signal ? { signal } : {});
}

/** Whether a request that can be repeated may succeed later. */
export function isTransient(error: SvcError): boolean {
  return error instanceof Unavailable || error.status === 429;
}

/** Whether the server has not acted on the request. */
export function wasNotSent(error: SvcError): boolean {
  const code = (error.cause as { cause?: { code?: string } } | undefined)?.cause?.code ?? "";
  return error.status === 429 || ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
}

/** Returns the headers of a request that the cloud executes only once, also if it is repeated. */
export function once(): { headers: Record<string, string>; canRepeat: (failure: SvcError) => boolean } {
  return { headers: { "Idempotency-Key": crypto.randomUUID() }, canRepeat: isTransient };
}

function reasonOf(cause: unknown): string {
  const inner = (cause as { cause?: { code?: string; message?: string } }).cause;
  return inner?.code ?? inner?.message ?? String(cause);
}

function encodeQuery(query: Query): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? (value as string[]) : [value]) text.append(name, String(one));
  }
  return text.size > 0 ? `?${text}` : "";
}
