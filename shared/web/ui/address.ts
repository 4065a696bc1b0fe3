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
  const change = (changes: Partial<Record<Key, string>>, replace = false) => {
    const next = new URLSearchParams(query);
    if (!("page" in changes)) next.delete("page");
    if (!("cursor" in changes)) next.delete("cursor");
    for (const [key, value] of Object.entries(changes)) {
      if (value) next.set(key, value as string);
      else next.delete(key);
    }
    const text = next.toString();
    navigate(text ? `${path}?${text}` : path, { replace });
  };
  return [Object.fromEntries(query) as Partial<Record<Key, string>>, change];
}
