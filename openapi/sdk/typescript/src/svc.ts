import { SvcCloud } from "./cloud.js";
import { LimitReached, NotFound, SvcError, Unavailable } from "./errors.js";
import { Http, isTransient, pause, wasNotSent, type CallOptions, type ClientOptions } from "./http.js";
import { Session } from "./session.js";
import type { BrowserSettings, LaunchSpec, Proxy, SessionFilter, SessionInfo } from "./types.js";

export interface SvcOptions extends ClientOptions {
  /**
   * The address of a worker or of a load balancer in front of workers, or the addresses of several workers; by default
   * SVC_WORKER, addresses separated by commas.
   */
  worker?: string | readonly string[] | undefined;
  /** The key of the workers (`API_KEY` of a worker); by default SVC_API_KEY. */
  key?: string | undefined;
  /** Finds profiles by name; by default the cloud SVC_CLOUD_URL with the access token SVC_TOKEN. */
  cloud?: SvcCloud | undefined;
}

/** A launch: a profile or a spec, and the settings of this browser. */
export interface LaunchOptions extends BrowserSettings, CallOptions {
  /** The id of a profile, or its name if the client has a `cloud`. */
  profile?: string;
  /** Criteria for a profile of this launch only. Without `profile`, `{}` by default. */
  spec?: LaunchSpec;
  /** Replaces the proxy of the profile. */
  proxy?: Proxy;
  /** How long to wait for a free worker and a free slot, in seconds; 0 by default. */
  waitSeconds?: number;
}

const longestWait = 240; // seconds; fetch ends a request without an answer after 300
const longestTurn = 30; // seconds for one of several workers: another can have capacity earlier
const startTime = 90_000; // ms for the start of a browser
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Launches browsers on workers. */
export class Svc {
  readonly sessions: Sessions;
  readonly #workers: Http[];
  readonly #cloud: SvcCloud | undefined;
  #next = 0; // the worker of the next launch

  constructor(options: SvcOptions = {}) {
    const { SVC_WORKER, SVC_API_KEY, SVC_CLOUD_URL: cloud, SVC_TOKEN: token } = process.env;
    const worker = options.worker ?? (SVC_WORKER ?? "").split(",").filter(Boolean);
    const addresses = typeof worker === "string" ? [worker] : worker;
    const key = options.key ?? SVC_API_KEY;
    if (addresses.length === 0 || !key)
      throw new TypeError("Give Svc worker and key, or set SVC_WORKER and SVC_API_KEY.");
    this.#workers = addresses.map((address) => new Http(address, { "X-API-Key": key }, options));
    this.#cloud = options.cloud ?? (cloud && token ? new SvcCloud({ cloud, token }) : undefined);
    this.sessions = new Sessions(this.#workers);
  }

  /** Launches a browser, on the next worker that has capacity. */
  async launch(options: LaunchOptions = {}): Promise<Session> {
    const { profile, spec, proxy, waitSeconds = 0, signal, timeout, ...browser } = options;
    const request = {
      ...(profile === undefined
        ? { spec: spec ?? {} }
        : { profileId: await this.#profileId(profile, signal), ...(spec ? { spec } : {}) }),
      ...(proxy ? { proxyOverride: proxy } : {}),
      browser,
    };
    return this.#launch(request, waitSeconds, { signal, timeout: timeout ?? startTime });
  }

  /**
   * Tries the workers in turn. Only a worker that has certainly not started a browser is replaced by the next. With
   * `waitSeconds`, several workers are first asked without a wait, because any of them can have capacity.
   */
  async #launch(
    request: object,
    waitSeconds: number,
    call: { signal: AbortSignal | undefined; timeout: number },
  ): Promise<Session> {
    const until = Date.now() + waitSeconds * 1000;
    const count = this.#workers.length;
    const first = this.#next++;
    let failures = 0; // in succession, for which waitSeconds does not wait
    for (let attempt = 0; ; attempt++) {
      const worker = this.#workers[(first + attempt) % count] as Http;
      const began = Date.now();
      const isProbe = attempt < count && count > 1 && waitSeconds > 0;
      const left = isProbe ? 0 : Math.max(0, Math.ceil((until - began) / 1000));
      const wait = Math.min(left, count > 1 ? longestTurn : longestWait);
      const options = {
        signal: call.signal,
        timeout: call.timeout + wait * 1000,
        canRepeat: () => false,
        body: { ...request, waitSeconds: wait },
      };
      try {
        return new Session(worker, await worker.json<SessionInfo>("POST", "/sessions/profile", options));
      } catch (error) {
        const isWaiting = waitSeconds > 0 && isFull(error);
        failures = isWaiting ? 0 : failures + 1;
        const isOver = isWaiting ? !isProbe && Date.now() >= until : failures >= (worker.retries + 1) * count;
        if (!(error instanceof SvcError) || isOver) throw error;
        if (!isWaiting && error.status !== 503 && !wasNotSent(error)) throw error;
        const isLast = (attempt + 1) % count === 0;
        const hasWaited = isProbe || (isWaiting && Date.now() - began >= wait * 1000);
        if (!isLast || hasWaited) continue;
        const longest = isWaiting ? until - Date.now() : undefined;
        await pause(error, Math.min(Math.floor(attempt / count), 5), call.signal, longest);
      }
    }
  }

  async #profileId(profile: string, signal: AbortSignal | undefined): Promise<string> {
    if (uuid.test(profile)) return profile;
    if (this.#cloud) return (await this.#cloud.profiles.find(profile, { signal })).id;
    throw new TypeError(
      `profile is not an id: ${profile}. Give Svc a cloud, or set SVC_CLOUD_URL and SVC_TOKEN, to launch profiles by name.`,
    );
  }
}

/** Whether there is no capacity for the launch now. */
function isFull(error: unknown): boolean {
  return error instanceof LimitReached || (error instanceof Unavailable && error.status === 503);
}

/** The sessions of all workers. */
export class Sessions {
  readonly #workers: Http[];

  constructor(workers: Http[]) {
    this.#workers = workers;
  }

  async *list(
    filter: Omit<SessionFilter, "page"> = {},
    options: CallOptions = {},
  ): AsyncGenerator<Session, void, undefined> {
    for (const worker of this.#workers) {
      for await (const info of worker.pages<SessionInfo>("/sessions", filter, options)) yield new Session(worker, info);
    }
  }

  /** Returns the session with this id, for example to use it in another process. */
  async get(id: string, options: CallOptions = {}): Promise<Session> {
    let failure: unknown;
    for (const worker of this.#workers) {
      try {
        return new Session(
          worker,
          await worker.json<SessionInfo>("GET", `/sessions/${encodeURIComponent(id)}`, options),
        );
      } catch (error) {
        if (!(error instanceof NotFound || (error instanceof SvcError && isTransient(error)))) throw error;
        failure = failure instanceof NotFound || !failure ? error : failure; // a worker that failed may have it
      }
    }
    throw failure;
  }
}
