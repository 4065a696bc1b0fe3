import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { poll } from "../../../shared/web/api/query";
import { machineName } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useAllKeys } from "./team";

/** The 100 machines that reported latest, for filters and summaries. */
export function useLatestMachines(interval?: number) {
  return useQuery({
    queryKey: ["machines", "latest"],
    queryFn: () =>
      send(
        api.GET("/v1/machines", {
          params: {
            query: { limit: 100, sortBy: "lastHeartbeatAt", sortOrder: "desc" },
          },
        }),
      ),
    refetchInterval: interval ? poll(interval) : false,
  });
}

type Machine = Schema<"Machine">;

/** The address of a page of the worker's console; undefined if the machine reports no public URL. */
export const consolePage = ({ publicUrl }: Machine, path: string): string | undefined =>
  publicUrl === null ? undefined : `${publicUrl.replace(/\/$/, "")}/#${path}`;

/** The machines whose console can be opened, online before draining ones. */
export function useReachableMachines(): Machine[] | undefined {
  const states = ["online", "draining"];
  return useLatestMachines()
    .data?.items.filter((m) => m.publicUrl !== null && states.includes(m.state))
    .sort((a, b) => states.indexOf(a.state) - states.indexOf(b.state));
}

/** The names of the machines that reported latest, by id. */
export function useMachineNames(): Map<string, string> {
  return new Map(useLatestMachines().data?.items.map((m) => [m.machineId, machineName(m)]));
}

/**
 * The organization keys by id. Only owners and admins may list keys; members see those that machines use.
 */
export function useKeyNames(): Map<string, string> {
  const machines = useLatestMachines();
  const keys = useAllKeys();
  const names = new Map<string, string>();
  for (const m of machines.data?.items ?? []) if (m.keyId && m.keyName) names.set(m.keyId, m.keyName);
  for (const k of keys.data ?? []) names.set(k.id, k.name);
  return names;
}
