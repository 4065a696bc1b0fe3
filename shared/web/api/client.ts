import createClient, { type Client, type ClientOptions } from "openapi-fetch";
import { ApiError, errorOf, networkError } from "./errors";

/** How long a request may take before it fails, in milliseconds. */
const requestTimeout = 20_000;

/** The base path of the application: `/`, or the path of the public URL. */
export function basePath(): string {
  return new URL(document.baseURI).pathname;
}

/**
 * Returns a client that is typed by an API document. `prepare` can add headers to each request.
 * Every request has a deadline; `timeout` is for operations that take longer.
 */
export function newClient<Paths extends {}>(
  prepare?: (headers: Headers) => void,
  timeout = requestTimeout,
): Client<Paths> {
  const options: ClientOptions = {
    baseUrl: new URL(".", document.baseURI).href.replace(/\/$/, ""),
    credentials: "same-origin",
    fetch: (request) => {
      prepare?.(request.headers);
      return fetch(new Request(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(timeout)]) }));
    },
  };
  return createClient<Paths>(options);
}

interface Outcome {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/** The `data` of the success envelope. */
type Payload<T> = T extends { data: infer D } ? D : never;

const failureListeners = new Set<(error: ApiError) => void>();

/** Calls the listener for each failed request. Returns a function that removes it. */
export function onFailure(listener: (error: ApiError) => void): () => void {
  failureListeners.add(listener);
  return () => failureListeners.delete(listener);
}

/**
 * Returns the `data` of the response. Throws an ApiError for a failure or if there is no response.
 *
 *     const profiles = await send(api.GET("/v1/profiles", { params: { query: { page: 1 } } }));
 */
export async function send<R extends Outcome>(request: Promise<R>): Promise<Payload<NonNullable<R["data"]>>> {
  let outcome: R;
  try {
    outcome = await request;
  } catch (cause) {
    throw report(cause instanceof ApiError ? cause : networkError(cause));
  }
  if (!outcome.response.ok) {
    throw report(errorOf(outcome.response, outcome.error));
  }
  return (outcome.data as { data: Payload<NonNullable<R["data"]>> } | undefined)?.data as Payload<
    NonNullable<R["data"]>
  >;
}

function report(error: ApiError): ApiError {
  for (const listener of failureListeners) listener(error);
  return error;
}
