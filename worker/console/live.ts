import { queryOptions } from "@tanstack/preact-query";
import { send } from "../../shared/web/api/client";
import { detailInterval, liveInterval, poll } from "../../shared/web/api/query";
import { api, type Schema } from "./api";

/** The load at one time, for the sparklines. */
interface Sample {
  at: number;
  cpu: number;
  memory: number;
  sessions: number;
}

const kept = 120;
let samples: readonly Sample[] = [];

/** The samples of the last ten minutes, oldest first. They are lost when the page is closed. */
export const liveSamples = (): readonly Sample[] => samples;

async function fetchLive(): Promise<Schema<"FleetLive">> {
  const live = await send(api.GET("/fleet/live"));
  const sample = {
    at: Date.now(),
    cpu: live.cpuPercent,
    memory: live.memoryPercent,
    sessions: live.activeSessions,
  };
  samples = [...samples.slice(1 - kept), sample];
  return live;
}

/** The load of the machine. Until the user is signed in, it is asked for once. */
export const liveQuery = queryOptions({
  queryKey: ["live"],
  queryFn: fetchLive,
  refetchInterval: (query) => (query.state.data ? poll(liveInterval)(query) : false),
  refetchOnWindowFocus: (query) => query.state.data !== undefined,
});

/** The state of the machine. */
export const statusQuery = queryOptions({
  queryKey: ["status"],
  queryFn: () => send(api.GET("/fleet/status")),
  refetchInterval: poll(detailInterval),
});
