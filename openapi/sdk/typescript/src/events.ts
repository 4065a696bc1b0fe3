import { Unavailable } from "./errors.js";
import { pause, type CallOptions, type Http } from "./http.js";

export interface ServerEvent {
  type: string;
  data: string;
}

/** Yields server-sent events. A stream that breaks continues after its last event. */
export async function* readEvents(
  http: Http,
  path: string,
  options: CallOptions,
): AsyncGenerator<ServerEvent, void, undefined> {
  let last = "";
  for (let attempt = 0; ; attempt++) {
    const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
    const { body } = await http.stream(path, { ...options, headers });
    let failure: unknown;
    try {
      const text = new TextDecoder();
      let rest = "";
      for await (const chunk of body ?? []) {
        const parts = (rest + text.decode(chunk as Uint8Array, { stream: true })).split("\n\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          attempt = 0;
          const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: ?(.*)/s, 2))) as Record<
            string,
            string
          >;
          last = fields["id"] ?? last;
          if (fields["data"] !== undefined) yield { type: fields["event"] ?? "message", data: fields["data"] };
        }
      }
    } catch (cause) {
      failure = cause;
    }
    options.signal?.throwIfAborted();
    const error = new Unavailable(
      { code: "NETWORK_ERROR", message: "The stream has ended.", status: 0, details: [], requestId: "" },
      failure,
    );
    if (attempt >= http.retries) throw error;
    await pause(error, attempt, options.signal);
  }
}
