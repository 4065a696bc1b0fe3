import { useQuery } from "@tanstack/preact-query";
import { useRef } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import { ButtonLink, ErrorNotice, Notice, machineName } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/connect";
import { ConnectUse } from "./connect-use";
import "./lists.css";

/** The third step: waits for the first heartbeat of a new worker. */
export function ConnectWait({
  keyId,
  organizationKey,
  cloudUrl,
}: {
  keyId: string | undefined;
  /** The full key, or what stands for it. */
  organizationKey: string;
  cloudUrl: string;
}) {
  const machines = useQuery({
    queryKey: ["machines", { keyId, connect: true }],
    refetchInterval: poll(liveInterval),
    queryFn: () =>
      send(
        api.GET("/v1/machines", {
          params: {
            query: {
              keyId,
              limit: 100,
              sortBy: "lastHeartbeatAt",
              sortOrder: "desc",
            },
          },
        }),
      ),
  });
  const online = machines.data?.items.filter((m) => m.state !== "offline");
  const before = useBaseline(online);
  const fresh = online?.filter((m) => !before.has(m.machineId)) ?? [];
  const old = online?.filter((m) => before.has(m.machineId)) ?? [];
  const worker = (fresh[0] ?? old[0])?.publicUrl;
  return (
    <>
      <section class="panel stack" aria-labelledby="connect-wait">
        <h2 id="connect-wait">{texts.waitStep}</h2>
        {machines.error && <ErrorNotice error={machines.error} onRetry={() => void machines.refetch()} />}
        <div class="stack" role="status">
          {fresh.map((m) => (
            <Connected key={m.machineId} machine={m} />
          ))}
          {fresh.length === 0 && <Waiting old={old} />}
        </div>
        {fresh.length > 0 ? (
          <div class="row">
            <ButtonLink to="/profiles" kind="primary" icon="play">
              {texts.launch}
            </ButtonLink>
            <ButtonLink to="/machines" icon="server">
              {texts.machines}
            </ButtonLink>
          </div>
        ) : (
          <details>
            <summary>{texts.trouble}</summary>
            <ul class="plain-list">
              {texts.troubles(cloudUrl).map((text) => (
                <li key={text}>{text}</li>
              ))}
            </ul>
          </details>
        )}
      </section>
      <ConnectUse worker={worker ?? "http://localhost:3000"} workerKey={organizationKey} />
    </>
  );
}

/** The machines that were online when this step was shown: they are not the new worker. */
function useBaseline(online: Schema<"Machine">[] | undefined): ReadonlySet<string> {
  const baseline = useRef<Set<string>>();
  if (online && !baseline.current) baseline.current = new Set(online.map((m) => m.machineId));
  return baseline.current ?? new Set();
}

function Waiting({ old }: { old: Schema<"Machine">[] }) {
  return (
    <>
      <p class="row strong">
        <span class="spinner" />
        {old.length ? texts.waitingNext : texts.waiting}
      </p>
      <p class="faint">{texts.waitingHint}</p>
      {old.length > 0 && <p class="faint">{texts.already(old.map(machineName).join(", "))}</p>}
    </>
  );
}

function Connected({ machine }: { machine: Schema<"Machine"> }) {
  return (
    <Notice tone="good" title={texts.connected(machineName(machine))}>
      {texts.connectedHint(machine.keyName, machine.version)}
    </Notice>
  );
}
