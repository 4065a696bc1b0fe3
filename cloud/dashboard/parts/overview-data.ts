import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import { api } from "../api";
import { useManages, useSession } from "../session";

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

/**
 * The members and pending invitations, which count toward the same limit. Only owners and admins may count invitations.
 */
export function useMemberCount() {
  const organizationId = useSession().organization.id;
  const manages = useManages();
  const params = { path: { organizationId }, query: { limit: 1 } };
  return useQuery({
    queryKey: ["members", "count", manages],
    queryFn: async () => {
      const [members, invitations] = await Promise.all([
        send(api.GET("/v1/organizations/{organizationId}/members", { params })),
        manages ? send(api.GET("/v1/organizations/{organizationId}/invitations", { params })) : undefined,
      ]);
      return members.pagination.total + (invitations?.pagination.total ?? 0);
    },
    staleTime: 60_000,
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
    refetchInterval: poll(summaryInterval * 2),
  });
}

/** The five sessions that started last. */
export function useRecentSessions() {
  return useQuery({
    queryKey: ["sessions", "recent"],
    queryFn: () => send(api.GET("/v1/sessions", { params: { query: { limit: 5 } } })),
    refetchInterval: poll(summaryInterval),
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
              sortBy: "lastHeartbeatAt",
              sortOrder: "desc",
            },
          },
        }),
      ),
    refetchInterval: poll(summaryInterval * 2),
  });
}
