import { QueryClient } from "@tanstack/preact-query";
import { ApiError } from "./errors";

/** Returns the cache of server data. Transient failures are retried twice, with growing delays. */
export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        // The pages state what failed; a request that waits for "online" would show nothing.
        networkMode: "always",
        retry: (count, error) => count < 2 && (!(error instanceof ApiError) || error.transient),
        retryDelay: (count) => Math.min(1000 * 2 ** count, 8000),
      },
      mutations: { networkMode: "always" },
    },
  });
}

/** The interval of live numbers, in milliseconds. */
export const liveInterval = 5_000;

/** The interval of details beside a live list. */
export const detailInterval = 10_000;

/** The interval of summaries. */
export const summaryInterval = 30_000;

interface Polled {
  state: { data: unknown; error: unknown };
}

/**
 * Polls at the interval. It waits longer if the server asks for it or if there is only an error, so that the error
 * stays readable, and stops while no user is signed in.
 */
export function poll(interval: number) {
  return ({ state: { data, error } }: Polled): number | false => {
    if (!error) return interval;
    if (error instanceof ApiError && error.status === 401) return false;
    const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
    return Math.max(interval, asked, data === undefined ? summaryInterval : 0);
  };
}
