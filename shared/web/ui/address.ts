import { useRef } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";

/**
 * The filters of a page, kept in the query of its address, so that a page can be reloaded, shared and left with the back
 * button. Setting a filter to "" removes it; `page` and `cursor` are removed when another filter changes.
 */
export function useAddress<Key extends string>(): [
  Partial<Record<Key, string>>,
  (changes: Partial<Record<Key, string>>, replace?: boolean) => void,
] {
  const [path, navigate] = useLocation();
  const query = new URLSearchParams(useSearch());
  // A delayed change, for example of a search, must keep what other filters became meanwhile.
  const latest = useRef({ path, query });
  latest.current = { path, query };
  const change = (changes: Partial<Record<Key, string>>, replace = false) => {
    const next = new URLSearchParams(latest.current.query);
    if (!("page" in changes)) next.delete("page");
    if (!("cursor" in changes)) next.delete("cursor");
    for (const [key, value] of Object.entries(changes)) {
      if (value) next.set(key, value as string);
      else next.delete(key);
    }
    latest.current.query = next;
    const text = next.toString();
    navigate(text ? `${latest.current.path}?${text}` : latest.current.path, { replace });
  };
  return [Object.fromEntries(query) as Partial<Record<Key, string>>, change];
}

/** Returns the page number of the address; anything else is the first page. */
export function pageOf(text: string | undefined): number {
  const page = Number(text);
  return Number.isInteger(page) && page >= 1 && page <= 1_000_000 ? page : 1;
}
