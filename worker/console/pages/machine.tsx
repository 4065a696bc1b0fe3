import { useQuery } from "@tanstack/preact-query";
import { formatDuration, Loaded, machineName } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { liveQuery, statusQuery } from "../live";
import { Availability } from "../parts/availability";
import { LoadPanels } from "../parts/load-panels";
import { Browsers, Cloud, Isolation, WarmPool, Worker } from "../parts/machine-panels";
import { texts } from "../texts/machine";
import "./machine.css";

/** The state of this machine. */
export default function Machine() {
  const status = useQuery(statusQuery);
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          {status.data && <Subtitle status={status.data} />}
        </div>
      </div>
      <Loaded query={status} lines={8}>
        {(data) => <Panels status={data} />}
      </Loaded>
    </>
  );
}

function Subtitle({ status }: { status: Schema<"FleetStatus"> }) {
  const { host, workerId, machineId, startedAt } = status;
  const seconds = (Date.now() - Date.parse(startedAt)) / 1000;
  const name = machineName({ hostName: host.hostname, workerId, machineId });
  return <p>{texts.subtitle(name, formatDuration(seconds))}</p>;
}

function Panels({ status }: { status: Schema<"FleetStatus"> }) {
  const live = useQuery(liveQuery).data;
  return (
    <div class="stack">
      {live && (
        <>
          <Availability live={live} />
          <LoadPanels live={live} status={status} />
        </>
      )}
      <div class="machine-columns">
        <Browsers browsers={status.browsers} />
        <WarmPool pool={status.warmPool} />
        <Cloud license={status.license} />
        <Worker status={status} />
        <Isolation pieces={status.isolation} />
      </div>
    </div>
  );
}
