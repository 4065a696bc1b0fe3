import { setTimeout as sleep } from "node:timers/promises";
import { Conflict, NotFound, SvcError } from "./errors.js";
import type { CallOptions, Http } from "./http.js";
import type { Recording, RecordingPart, RecordingTicket, SessionInfo } from "./types.js";

const completion = 60_000; // ms for the last files of a recording

/** The recording of a session: `record: ["video", "events"]` at launch, or `start`. */
export class SessionRecording {
  readonly #http: Http;
  readonly #session: { id: string; launchId: string };

  constructor(http: Http, session: { id: string; launchId: string }) {
    this.#http = http;
    this.#session = session;
  }

  async start(record: RecordingPart[] = ["video"], options?: CallOptions): Promise<Recording> {
    return this.#http.json("POST", `/browsers/${this.#session.launchId}/recording`, { ...options, body: { record } });
  }

  /** Ends the recording; the session continues. Without a running recording it does nothing. */
  async stop(options?: CallOptions): Promise<void> {
    try {
      await this.#http.json("DELETE", `/browsers/${this.#session.launchId}/recording`, options);
    } catch (error) {
      if (!(error instanceof Conflict || error instanceof NotFound)) throw error;
    }
  }

  /** Ends the recording and stores the video: WebM, or MP4 if the path ends so. */
  async save(path: string, options?: CallOptions): Promise<void> {
    await this.#save("", path, path.endsWith(".mp4") ? { format: "mp4" } : undefined, options);
  }

  /** Ends the recording and stores the events, as JSON lines. */
  async saveEvents(path: string, options?: CallOptions): Promise<void> {
    await this.#save("/events", path, undefined, options);
  }

  /** Ends the recording and stores the frames, as a zip archive. */
  async saveFrames(path: string, options?: CallOptions): Promise<void> {
    await this.#save("/frames", path, undefined, options);
  }

  /** Stores the requests so far as an HTTP archive (HAR). A running recording continues. */
  async saveHar(path: string, options?: CallOptions): Promise<void> {
    await this.#http.save(`/sessions/${this.#session.id}/recording/har`, path, { timeout: 60_000, ...options });
  }

  /** Returns the address of the player. It opens once, within 15 minutes. */
  async link(options?: CallOptions): Promise<string> {
    return this.#http.reach((await this.#ticket(options)).url);
  }

  /** Returns the address of the trace viewer, for `record: ["trace"]`: at the `PUBLIC_URL` of the worker, where alone it works. It opens once, within 15 minutes. */
  async traceLink(options?: CallOptions): Promise<string> {
    const { viewerUrl } = await this.#ticket(options);
    if (viewerUrl) return viewerUrl;
    throw missing("the session has no trace", "trace");
  }

  #ticket(options?: CallOptions): Promise<RecordingTicket> {
    return this.#http.json("POST", `/sessions/${this.#session.id}/recording/ticket`, options);
  }

  async #save(part: string, path: string, query: object | undefined, options?: CallOptions): Promise<void> {
    await this.stop(options);
    await this.#complete(options);
    await this.#http.save(`/sessions/${this.#session.id}/recording${part}`, path, {
      timeout: 60_000,
      ...options,
      query,
    });
  }

  /** Waits until the files of the recording are complete. */
  async #complete(options?: CallOptions): Promise<void> {
    for (const end = Date.now() + completion; ;) {
      const { recording } = await this.#http.json<SessionInfo>("GET", `/sessions/${this.#session.id}`, options);
      if (recording?.state === "complete" || recording?.state === "incomplete") return;
      if (recording?.state === "recording" && Date.now() < end) {
        await sleep(200, undefined, options?.signal ? { signal: options.signal } : {});
        continue;
      }
      const reason = recording
        ? `it is ${recording.state}${recording.reason ? ` (${recording.reason})` : ""}`
        : "the session was not recorded";
      throw missing(reason, "video");
    }
  }
}

function missing(reason: string, part: RecordingPart): SvcError {
  const message = `There is no recording to save: ${reason}. Launch with record: ["${part}"].`;
  return new SvcError({ code: "RESOURCE_NOT_FOUND", message, status: 0, details: [], requestId: "" });
}
