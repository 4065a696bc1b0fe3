import { pageOf, type Sort } from "../../../shared/web/ui";
import type { Schema } from "../api";

export const ranges = { "1h": 3_600, "24h": 86_400, "7d": 604_800 } as const;

type Key =
  | "status"
  | "profileId"
  | "machineId"
  | "keyId"
  | "name"
  | "label"
  | "range"
  | "from"
  | "to"
  | "sortBy"
  | "sortOrder"
  | "page"
  | "cursor";

/** The filters of the session list in the address. */
export type SessionAddress = Partial<Record<Key, string>>;
export type ChangeAddress = (changes: SessionAddress) => void;

/** Removes all filters; the sort stays. */
export const noFilters: SessionAddress = {
  status: "",
  profileId: "",
  machineId: "",
  keyId: "",
  name: "",
  label: "",
  range: "",
  from: "",
  to: "",
};

/** Whether the list is filtered. */
export function isFiltered(address: SessionAddress): boolean {
  return Object.keys(noFilters).some((key) => address[key as Key]);
}

/** The sort of the list. */
export function sortOf(address: SessionAddress): Sort {
  return {
    by: address.sortBy ?? "startedAt",
    order: address.sortOrder === "asc" ? "asc" : "desc",
  };
}

/** The start of the time: of a quick range until now, or the chosen one. */
export function fromOf(address: SessionAddress): string | undefined {
  const seconds = ranges[address.range as keyof typeof ranges];
  if (!seconds) return address.from;
  return new Date(Date.now() - seconds * 1000).toISOString();
}

/** The query of `listSessions`. */
export function queryOf(address: SessionAddress) {
  const { by, order } = sortOf(address);
  return {
    limit: 25,
    page: address.cursor ? undefined : pageOf(address.page),
    cursor: address.cursor,
    sortBy: by as Schema<"SessionSortField">,
    sortOrder: order,
    status: address.status as Schema<"SessionStatus"> | undefined,
    profileId: address.profileId,
    machineId: address.machineId,
    keyId: address.keyId,
    name: address.name,
    metadata: address.label ? [address.label] : undefined,
    from: fromOf(address),
    to: address.to,
  };
}
