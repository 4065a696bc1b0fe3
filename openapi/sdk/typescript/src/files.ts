import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { CallOptions, Http } from "./http.js";
import type { Transport } from "./resume.js";
import type { BrowserFile } from "./types.js";

/** The downloads and uploads of a session. */
export class Files {
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, launchId: string) {
    this.#http = http;
    this.#path = `/browsers/${launchId}/files`;
  }

  list(options?: CallOptions): AsyncGenerator<BrowserFile, void, undefined> {
    return this.#http.pages(this.#path, undefined, options);
  }

  /** Stores the newest file of this name, or the file with this id, at a path. It waits for the end of a download. */
  async save(file: string | { id: string }, path: string, options?: CallOptions): Promise<void> {
    const [id, query] = typeof file === "string" ? ["latest", { name: file }] : [file.id, undefined];
    await this.#http.save(`${this.#path}/${encodeURIComponent(id)}`, path, { ...options, query });
  }

  /** Copies a file to the machine of the browser. `path` of the result is where the browser reads it. */
  async upload(path: string, options?: CallOptions): Promise<BrowserFile> {
    const url = `${this.#path}/${encodeURIComponent(basename(path))}`;
    const body = createReadStream(path);
    return this.#http.json("PUT", url, { timeout: 3_600_000, ...options, body, canRepeat: () => false });
  }

  async delete(file: { id: string }, options?: CallOptions): Promise<void> {
    await this.#http.json("DELETE", `${this.#path}/${encodeURIComponent(file.id)}`, options);
  }
}

interface Message {
  id?: number;
  sessionId?: string;
  method?: string;
  params: Record<string, unknown>;
}

const mostScanned = 1 << 20; // messages about files are smaller

/**
 * A transport that lets clients of CDP use the files of their own machine: a finished download is stored in the download
 * directory of the client before the client is told of its end, and files that the client names for an input are uploaded.
 */
export class LocalFiles implements Transport {
  onmessage?: ((message: string) => void) | undefined;
  onclose?: (() => void) | undefined;
  readonly #inner: Transport;
  readonly #files: Files;
  readonly #names = new Map<string, string>(); // of downloads, by guid
  #directory = ""; // "" until the client has set one
  #byId = false; // files are named by their guid

  constructor(inner: Transport, files: Files, onEnd: () => void) {
    this.#inner = inner;
    this.#files = files;
    inner.onmessage = (message) => this.#receive(message);
    inner.onclose = () => {
      onEnd();
      this.onclose?.();
    };
  }

  send(message: string): void {
    if (message.length > mostScanned) return this.#inner.send(message);
    if (message.includes('"Browser.setDownloadBehavior"'))
      return this.#inner.send(this.#setDirectory(JSON.parse(message) as Message));
    if (message.includes('"DOM.setFileInputFiles"')) return void this.#upload(JSON.parse(message) as Message);
    this.#inner.send(message);
  }

  close(): void {
    this.#inner.close();
  }

  /** Notes the directory of the client, and asks for the events of downloads. */
  #setDirectory(message: Message): string {
    const { behavior, downloadPath } = message.params;
    if (message.method === "Browser.setDownloadBehavior" && typeof downloadPath === "string") {
      this.#directory = downloadPath;
      this.#byId = behavior === "allowAndName";
      message.params["eventsEnabled"] = true;
    }
    return JSON.stringify(message);
  }

  /** Uploads files of this machine; other paths are those of the browser. */
  async #upload(message: Message): Promise<void> {
    try {
      const paths = Array.isArray(message.params["files"]) ? (message.params["files"] as string[]) : [];
      message.params["files"] = await Promise.all(
        paths.map(async (path) => {
          const isFile = await stat(path).then(
            (found) => found.isFile(),
            () => false,
          );
          return isFile ? (await this.#files.upload(path)).path : path;
        }),
      );
      this.#inner.send(JSON.stringify(message));
    } catch (cause) {
      const { id, sessionId } = message;
      this.onmessage?.(
        JSON.stringify({ id, sessionId, error: { code: -32000, message: `The upload failed: ${String(cause)}` } }),
      );
    }
  }

  #receive(message: string): void {
    if (message.length < mostScanned && message.includes('"Browser.download')) {
      const event = JSON.parse(message) as Message;
      const guid = String(event.params?.["guid"]);
      if (event.method === "Browser.downloadWillBegin") {
        this.#names.set(guid, basename(String(event.params["suggestedFilename"])));
      } else if (event.method === "Browser.downloadProgress" && event.params["state"] !== "inProgress") {
        const name = this.#byId ? guid : this.#names.get(guid);
        this.#names.delete(guid);
        if (event.params["state"] === "completed" && this.#directory && name) return void this.#save(event, guid, name);
      }
    }
    this.onmessage?.(message);
  }

  async #save(event: Message, guid: string, name: string): Promise<void> {
    const path = join(resolve(this.#directory), basename(name));
    await this.#files.save({ id: guid }, path).catch(() => (event.params["state"] = "canceled"));
    this.onmessage?.(JSON.stringify(event));
  }
}
