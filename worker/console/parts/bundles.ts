import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { api, type Schema } from "../api";

type Bundle = Schema<"Bundle">;

/** The criteria of a spec that select a bundle, apart from its file name. */
export const criteria = [
  "browserVersion",
  "os",
  "windowsVersion",
  "osVersion",
  "osArch",
  "model",
  "gpuName",
  "renderer",
] as const;

export type Criterion = (typeof criteria)[number];
type Choice = Partial<Record<Criterion | "filename", unknown>>;

const oldest = 10 * 60_000;

async function fetchBundles(): Promise<Bundle[]> {
  const all: Bundle[] = [];
  for (let page = 1; ; page++) {
    const list = await send(
      api.GET("/profiles", {
        params: {
          query: { page, limit: 100, sortBy: "name", sortOrder: "asc" },
        },
      }),
    );
    all.push(...list.items);
    if (!list.pagination.hasNext) return all;
  }
}

/** The bundles of this worker. */
export const useBundles = () =>
  useQuery({
    queryKey: ["bundles"],
    queryFn: fetchBundles,
    staleTime: oldest,
  });

/** The installed browsers. */
export const useVersions = () =>
  useQuery({
    queryKey: ["versions"],
    queryFn: () => send(api.GET("/profiles/versions")),
    staleTime: oldest,
  });

/** The Android models of a browser version. */
export const useAndroidModels = (browserVersion: number | undefined) =>
  useQuery({
    queryKey: ["android-models", browserVersion],
    queryFn: () =>
      send(
        api.GET("/profiles/android-models", {
          params: { query: { browserVersion: browserVersion! } },
        }),
      ),
    enabled: browserVersion !== undefined,
    staleTime: oldest,
  });

/** Whether the bundle meets a criterion, in the same way as GET /profiles filters. */
function meets(bundle: Bundle, name: Criterion | "filename", wanted: unknown) {
  const text = String(wanted).toLowerCase();
  const has = String(bundle[name] ?? "").toLowerCase();
  if (name === "model" || name === "gpuName" || name === "renderer") return has.includes(text);
  if (name === "osVersion") return has === text || has.startsWith(`${text}.`);
  return has === text;
}

/** The bundles that meet the choice. `except` is left out of it. */
export function matching(bundles: Bundle[], choice: Choice, except?: Criterion | "filename"): Bundle[] {
  const wanted = [...criteria, "filename" as const].filter((name) => name !== except && choice[name]);
  return bundles.filter((b) => wanted.every((n) => meets(b, n, choice[n])));
}

/** The values of a criterion among the bundles that meet the rest of the choice. */
export function valuesOf(bundles: Bundle[], choice: Choice, name: Criterion): string[] {
  const found = matching(bundles, choice, name).map((b) => b[name]);
  if (choice[name]) found.push(choice[name] as string);
  const values = new Set(found.filter((v) => v !== null).map(String));
  return [...values].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
