import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { poll } from "../../../shared/web/api/query";
import { api } from "../api";
import { useManages, useSession } from "../session";

/** Returns the items of all pages of a list, at most 1,000. */
export async function allPages<T>(
  read: (page: number) => Promise<{ items: T[]; pagination: { hasNext: boolean } }>,
): Promise<T[]> {
  const items: T[] = [];
  for (let page = 1; page <= 10; page++) {
    const found = await read(page);
    items.push(...found.items);
    if (!found.pagination.hasNext) break;
  }
  return items;
}

/** The members of the organization, to name people by their id. */
export function useAllMembers() {
  const organizationId = useSession().organization.id;
  return useQuery({
    queryKey: ["members", "all"],
    staleTime: 60_000,
    queryFn: () =>
      allPages((page) =>
        send(
          api.GET("/v1/organizations/{organizationId}/members", {
            params: {
              path: { organizationId },
              query: { page, limit: 100, sortBy: "name", sortOrder: "asc" },
            },
          }),
        ),
      ),
  });
}

/** The organization keys by name; only for owners and admins. */
export function useAllKeys(interval?: number) {
  const organizationId = useSession().organization.id;
  return useQuery({
    queryKey: ["keys", "all"],
    enabled: useManages(),
    staleTime: interval ? undefined : 60_000,
    refetchInterval: interval ? poll(interval) : false,
    queryFn: () =>
      allPages((page) =>
        send(
          api.GET("/v1/organizations/{organizationId}/api-keys", {
            params: {
              path: { organizationId },
              query: { page, limit: 100, sortBy: "name", sortOrder: "asc" },
            },
          }),
        ),
      ),
  });
}

/** The machines that use a key; without a key, all machines. */
export function useMachines(keyId: string | undefined, limit: number, interval?: number, enabled = true) {
  return useQuery({
    queryKey: ["machines", { keyId, limit }],
    enabled,
    refetchInterval: interval ? poll(interval) : false,
    queryFn: () =>
      send(
        api.GET("/v1/machines", {
          params: {
            query: { keyId, limit, sortBy: "lastHeartbeatAt", sortOrder: "desc" },
          },
        }),
      ),
  });
}

/** The name of a person: the display name, or the address. */
export const personName = (person: { name: string; email: string }): string => person.name || person.email;
