import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { api } from "../api";
import { useManages, useSession } from "../session";

/** The interval of live numbers, in milliseconds. */
export const liveInterval = 5_000;

/** The interval of summaries. The API counts each request of the organization, also those of the dashboard. */
export const summaryInterval = 30_000;

/** Polls at the interval; slower while there is only an error, so that the error stays readable. */
export function poll(interval: number) {
  return ({ state }: { state: { data: unknown; error: unknown } }): number =>
    state.data === undefined && state.error ? Math.max(interval, summaryInterval) : interval;
}

/** The 100 machines that reported latest, for filters and summaries. */
export function useLatestMachines(interval?: number) {
  return useQuery({
    queryKey: ["machines", "latest"],
    queryFn: () =>
      send(
        api.GET("/v1/machines", {
          params: {
            query: { limit: 100, sortBy: "lastSeenAt", sortOrder: "desc" },
          },
        }),
      ),
    refetchInterval: interval ? poll(interval) : false,
  });
}

/**
 * The organization keys by id. Only owners and admins may list keys; members see those that machines use.
 */
export function useKeyNames(): Map<string, string> {
  const { organization } = useSession();
  const manages = useManages();
  const machines = useLatestMachines();
  const keys = useQuery({
    queryKey: ["api-keys", organization.id, "names"],
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/api-keys", {
          params: {
            path: { organizationId: organization.id },
            query: { limit: 100, sortBy: "name", sortOrder: "asc" },
          },
        }),
      ),
    enabled: manages,
    staleTime: 60_000,
  });
  const names = new Map<string, string>();
  for (const m of machines.data?.items ?? []) if (m.keyId && m.keyName) names.set(m.keyId, m.keyName);
  for (const k of keys.data?.items ?? []) names.set(k.id, k.name);
  return names;
}
