import type { components } from "../api/worker.js";

/** One entry of `details`: an offending field or part of the request. */
export type ErrorDetail = components["schemas"]["ErrorDetail"];

/** What an answer says about its failure. */
export interface Failure {
  code: string;
  message: string;
  status: number;
  details: ErrorDetail[];
  requestId: string;
  /** The seconds of `Retry-After`. */
  retryAfter?: number | undefined;
}

/** A failed call. Branch on the class or on `code`, not on `message`. */
export class SvcError extends Error {
  /** One of the codes of the API, or `NETWORK_ERROR` without an answer. */
  readonly code: string;
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  readonly details: ErrorDetail[];
  /** The id of the request, for support. */
  readonly requestId: string;
  readonly retryAfter: number | undefined;

  constructor(failure: Failure, cause?: unknown) {
    super(failure.message, { cause });
    this.name = new.target.name;
    this.code = failure.code;
    this.status = failure.status;
    this.details = failure.details;
    this.requestId = failure.requestId;
    this.retryAfter = failure.retryAfter;
  }
}

/** The request is not valid; `details` has one entry for each field. */
export class InvalidRequest extends SvcError {}
/** The key or token is missing, wrong or revoked. */
export class Unauthorized extends SvcError {}
/** The caller has no permission. */
export class Forbidden extends SvcError {}
/** There is no such resource, or this browser version is not installed. */
export class NotFound extends SvcError {}
/** The state of the resource does not allow the call. */
export class Conflict extends SvcError {}
/** Too many requests; `retryAfter` says when to send the next. */
export class RateLimited extends SvcError {}
/** The service failed, is full or did not answer. A later call can succeed. */
export class Unavailable extends SvcError {}
/** The organization has reached a limit of its plan. `waitSeconds` of a launch waits for a slot. */
export class LimitReached extends SvcError {
  /** `concurrency_limit` or `profile_limit` of a launch. */
  readonly reason: string;
  readonly current: number | undefined;
  readonly limit: number | undefined;

  constructor(failure: Failure) {
    super(failure);
    const bounds = failure.details[0]?.constraint;
    this.reason = String(bounds?.["reason"] ?? failure.details[0]?.message ?? "");
    this.current = bounds?.current;
    this.limit = bounds?.limit ?? undefined;
  }
}

const classes: Record<string, typeof SvcError> = {
  VALIDATION_ERROR: InvalidRequest,
  AUTHENTICATION_ERROR: Unauthorized,
  AUTHORIZATION_ERROR: Forbidden,
  RESOURCE_NOT_FOUND: NotFound,
  RESOURCE_CONFLICT: Conflict,
  RATE_LIMIT_EXCEEDED: RateLimited,
  EXTERNAL_SERVICE_ERROR: Unavailable,
  INTERNAL_ERROR: Unavailable,
  NETWORK_ERROR: Unavailable,
};

/** Returns the error of a failed answer. Proxies and routes of browsers answer without an envelope. */
export async function readError(response: Response): Promise<SvcError> {
  const text = await response.text().catch(() => "");
  let error: Partial<components["schemas"]["Error"]> = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // not JSON
  }
  return newError(response.status, error, (name) => response.headers.get(name), text);
}

/** Returns the error of an answer with this status. `header` takes names in lower case. */
export function newError(
  status: number,
  error: Partial<components["schemas"]["Error"]>,
  header: (name: string) => string | null | undefined,
  text = "",
): SvcError {
  const seconds = Number(header("retry-after") ?? "");
  const location = status >= 300 && status < 400 ? header("location") : undefined;
  let message = `The server answered with status ${status}${text ? `: ${text.slice(0, 200)}` : "."}`;
  if (location) message = `The server redirects to ${location}. Use that address.`;
  const failure: Failure = {
    code: error.code ?? codeOf(status),
    message: error.message ?? message,
    status,
    details: error.details ?? [],
    requestId: header("x-request-id") ?? "",
    retryAfter: seconds > 0 ? seconds : undefined,
  };
  const bounds = failure.details[0]?.constraint;
  if (status === 402 || (status === 403 && bounds?.limit !== undefined)) return new LimitReached(failure);
  return new (classes[failure.code] ?? SvcError)(failure);
}

function codeOf(status: number): string {
  if (status === 401) return "AUTHENTICATION_ERROR";
  if (status === 404) return "RESOURCE_NOT_FOUND";
  if (status === 429) return "RATE_LIMIT_EXCEEDED";
  return status >= 502 && status <= 504 ? "EXTERNAL_SERVICE_ERROR" : "UNKNOWN";
}

/** Returns the error of a request without an answer. */
export function networkError(message: string, cause?: unknown): SvcError {
  return new Unavailable({ code: "NETWORK_ERROR", message, status: 0, details: [], requestId: "" }, cause);
}
