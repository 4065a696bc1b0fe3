import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { api } from "../api";
import { useManages, useSession } from "../session";

/** The interval of live numbers, in milliseconds. */
export const liveInterval = 5_000;

/** The 100 machines that reported latest, for filters and summaries. */
export function useLatestMachines(refetchInterval: number | false = false) {
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
    refetchInterval,
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
  for (const m of machines.data?.items ?? [])
    if (m.keyId && m.keyName) names.set(m.keyId, m.keyName);
  for (const k of keys.data?.items ?? []) names.set(k.id, k.name);
  return names;
}
