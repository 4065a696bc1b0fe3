import { useHashLocation } from "wouter-preact/use-hash-location";

/** Changes the page. The query is a part of the hash, so that it belongs to one page and can be removed. */
function navigate(to: string, { replace = false } = {}): void {
  const oldURL = location.href;
  const url = new URL(oldURL);
  url.hash = to;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  dispatchEvent(new HashChangeEvent("hashchange", { oldURL, newURL: url.href }));
}

/** The page of the hash, for the router: paths such as /sessions belong to the API. */
export function useHash(): [string, typeof navigate] {
  const [at] = useHashLocation();
  return [at.split("?")[0]!, navigate];
}

/** The query of the hash, for the router. */
export function useHashSearch(): string {
  const [at] = useHashLocation();
  return at.split("?")[1] ?? "";
}

/** The address of a page, for links. */
export const toHref = (path: string): string => `#${path}`;
