/** One entry of `error.details`: an offending field or part of the request. */
export interface ErrorDetail {
  field: string;
  code: string;
  message: string;
  constraint?: Record<string, unknown>;
}

/** A failure response, or a request without a response (`NETWORK_ERROR`). */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0 if there was no response. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: ErrorDetail[] = [],
    /** The `X-Request-Id` of the response, for support. */
    readonly requestId = "",
    /** The seconds of the `Retry-After` header. */
    readonly retryAfter?: number,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Whether the same request may succeed later. */
  get transient(): boolean {
    // A proxy answers 502 to 504 without a code while the service restarts.
    const unavailable = this.code === "UNKNOWN" && this.status >= 502 && this.status <= 504;
    return this.status === 0 || unavailable || this.code === "EXTERNAL_SERVICE_ERROR" || this.code === "INTERNAL_ERROR";
  }
}

/** Returns the error of a failed response. The body may not be an envelope, for example from a proxy. */
export function errorOf(response: Response, body: unknown): ApiError {
  const error = (body as { error?: { code?: string; message?: string; details?: ErrorDetail[] } } | undefined)?.error;
  const retryAfter = Number(response.headers.get("Retry-After") ?? "");
  return new ApiError(
    response.status,
    error?.code ?? "UNKNOWN",
    error?.message ?? `The server answered with status ${response.status}.`,
    error?.details ?? [],
    response.headers.get("X-Request-Id") ?? "",
    retryAfter > 0 ? retryAfter : undefined,
  );
}

/** Returns the error of a request that got no response. */
export function networkError(cause: unknown): ApiError {
  const timeout = cause instanceof DOMException && cause.name === "TimeoutError";
  return new ApiError(
    0,
    "NETWORK_ERROR",
    timeout
      ? "The server did not answer in time. Check your connection and try again."
      : "The server cannot be reached. Check your connection and try again.",
  );
}
