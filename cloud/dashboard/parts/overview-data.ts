import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { api } from "../api";
import { useSession } from "../session";
import { liveInterval, poll, summaryInterval } from "./fleet";

/** The slots in use now. It asks for two short steps only, because it is polled. */
export function useLiveUsage() {
  return useQuery({
    queryKey: ["license-usage", "live"],
    queryFn: () =>
      send(
        api.GET("/v1/license/usage", {
          params: {
            query: {
              step: "1m",
              from: new Date(Date.now() - 60_000).toISOString(),
            },
          },
        }),
      ),
    refetchInterval: poll(liveInterval),
  });
}

/** The slots in use, the limit and the refusals of the last 24 hours. */
export function useDayUsage() {
  return useQuery({
    queryKey: ["license-usage", "day"],
    queryFn: () => send(api.GET("/v1/license/usage", { params: { query: { step: "15m" } } })),
    refetchInterval: poll(summaryInterval * 2),
  });
}

/** The counts and limits of profiles and API requests. */
export function useProfileStats() {
  return useQuery({
    queryKey: ["profiles", "stats"],
    queryFn: () => send(api.GET("/v1/profiles/stats")),
    refetchInterval: poll(summaryInterval),
  });
}

/** The number of members. */
export function useMemberCount() {
  const { organization } = useSession();
  return useQuery({
    queryKey: ["members", organization.id, "count"],
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/members", {
          params: {
            path: { organizationId: organization.id },
            query: { limit: 1 },
          },
        }),
      ),
    staleTime: 60_000,
    select: (list) => list.pagination.total,
  });
}

/** The latest refused launches. */
export function useRefusals() {
  return useQuery({
    queryKey: ["license-events", "refused"],
    queryFn: () =>
      send(
        api.GET("/v1/license/events", {
          params: { query: { kind: "refused", limit: 5, sortOrder: "desc" } },
        }),
      ),
    refetchInterval: poll(summaryInterval),
  });
}

/** The five sessions that started last. */
export function useRecentSessions() {
  return useQuery({
    queryKey: ["sessions", "recent"],
    queryFn: () => send(api.GET("/v1/sessions", { params: { query: { limit: 5 } } })),
    refetchInterval: poll(summaryInterval / 2),
  });
}

/** The machines that are offline, the latest first. */
export function useOfflineMachines() {
  return useQuery({
    queryKey: ["machines", "offline"],
    queryFn: () =>
      send(
        api.GET("/v1/machines", {
          params: {
            query: {
              state: "offline",
              limit: 5,
              sortBy: "lastSeenAt",
              sortOrder: "desc",
            },
          },
        }),
      ),
    refetchInterval: poll(summaryInterval * 2),
  });
}
