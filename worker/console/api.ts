import { newClient } from "../../shared/web/api/client";
import { errorOf, networkError } from "../../shared/web/api/errors";
import type { components, paths } from "../../gen/web/worker";

/** A schema of the worker's API document, for example `Schema<"BrowserSession">`. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];

export const keyHeader = "X-API-Key";

/** The worker key, only in memory; undefined if the browser has the cookie instead. */
let key: string | undefined;

/** Sends this worker key with all requests, or none. */
export function rememberKey(value: string | undefined): void {
  key = value;
}

function prepare(headers: Headers): void {
  if (key && !headers.has(keyHeader)) headers.set(keyHeader, key);
}

/** The client of the worker's API. */
export const api = newClient<paths>(prepare);

/** The same for operations that may take minutes: a launch, the end of a session with data, a navigation. */
export const slowApi = newClient<paths>(prepare, 180_000);

interface FileOutcome<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the file, or its stream, of a response that is not JSON. Throws an ApiError for a failure. */
export async function sendFile<T = Blob>(request: Promise<FileOutcome<T>>): Promise<T> {
  let outcome: FileOutcome<T>;
  try {
    outcome = await request;
  } catch (cause) {
    throw networkError(cause);
  }
  if (!outcome.response.ok || !outcome.data) throw errorOf(outcome.response, outcome.error);
  return outcome.data;
}

/** Returns a preview of the page that was active last. It does not count as activity of the session. */
export function capturePreview(launchId: string, width: number, signal: AbortSignal): Promise<Blob> {
  const query = { format: "jpeg", quality: 65, width } as const;
  return sendFile(
    api.GET("/browsers/{launchId}/screenshot", {
      params: { path: { launchId }, query },
      parseAs: "blob",
      signal,
    }),
  );
}
