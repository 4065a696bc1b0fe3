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
