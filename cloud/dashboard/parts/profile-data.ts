import { useQuery } from "@tanstack/preact-query";
import { ApiError } from "../../../shared/web/api/errors";
import { send } from "../../../shared/web/api/client";
import { poll, summaryInterval } from "../../../shared/web/api/query";
import { api, type Schema } from "../api";

export type Profile = Schema<"Profile">;

/** The counts and limits of profiles and API requests. */
export function useProfileStats() {
  return useQuery({
    queryKey: ["profiles", "stats"],
    queryFn: () => send(api.GET("/v1/profiles/stats")),
    refetchInterval: poll(summaryInterval),
  });
}

/** How many more profiles the plan allows; null means any number, undefined that it is not known. */
export function remainingProfiles(stats: Schema<"ProfileStats"> | undefined): number | null | undefined {
  if (!stats) return undefined;
  if (stats.profileLimit === null) return null;
  return Math.max(0, stats.profileLimit - stats.totalProfiles - stats.ephemeralProfiles);
}

/** Browser versions and tags to choose from: those of the catalog and of the profiles that were updated last. */
export function useSuggestions(): {
  versions: number[];
  tags: string[];
  ready: boolean;
} {
  const releases = useQuery({
    queryKey: ["releases", "majors"],
    queryFn: () =>
      send(
        api.GET("/v1/chromium/releases", {
          params: { query: { limit: 100, sortBy: "version" } },
        }),
      ),
    staleTime: 300_000,
  });
  const profiles = useQuery({
    queryKey: ["profiles", "suggestions"],
    queryFn: () =>
      send(
        api.GET("/v1/profiles", {
          params: { query: { limit: 100, sortBy: "updatedAt" } },
        }),
      ),
    staleTime: 30_000,
  });
  const used = profiles.data?.items ?? [];
  const versions = [...(releases.data?.items ?? []).map((r) => r.major), ...used.map((p) => p.browserVersion)];
  return {
    versions: [...new Set(versions)].filter((v) => v > 0).sort((a, b) => b - a),
    tags: [...new Set(used.flatMap((p) => p.tags))].sort((a, b) => a.localeCompare(b)),
    ready: !releases.isPending && !profiles.isPending,
  };
}

/** Reads all profiles of the organization, page by page, until `onProgress` returns false. */
export async function readAllProfiles(onProgress: (read: number, total: number) => boolean): Promise<Profile[]> {
  const all = new Map<string, Profile>();
  for (let page = 1; ; page++) {
    const query = {
      page,
      limit: 100,
      sortBy: "createdAt",
      sortOrder: "asc",
    } as const;
    const { items, pagination } = await send(api.GET("/v1/profiles", { params: { query } }));
    for (const profile of items) all.set(profile.id, profile);
    const goesOn = onProgress(all.size, pagination.total);
    if (!goesOn || !pagination.hasNext) return [...all.values()];
  }
}

/** Returns `current` and `limit` if the error is that the plan allows no more profiles. */
export function limitOf(error: unknown): { current: number; limit: number } | undefined {
  if (!(error instanceof ApiError) || error.status !== 403) return undefined;
  const constraint = error.details.find((d) => d.field === "profileLimit")?.constraint;
  if (!constraint) return undefined;
  return {
    current: Number(constraint["current"]),
    limit: Number(constraint["limit"]),
  };
}

/** The header If-Match for a version of a profile. */
export const ifMatch = (profile: Profile) => ({
  "If-Match": `"${profile.version}"`,
});
