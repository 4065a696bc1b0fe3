import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll } from "../../../shared/web/api/query";
import {
  ButtonLink,
  CodeBlock,
  CopyButton,
  Dialog,
  Empty,
  Loaded,
  Notice,
  Time,
  formatTime,
  machineName,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/machines";
import { MachineActions } from "./machine-actions";
import { Capacity, MachineBadges, Version } from "./machine-state";

type Machine = Schema<"Machine">;

/** A drawer with the details of a machine. */
export function MachineDrawer({
  machineId,
  newest,
  onClose,
}: {
  machineId: string;
  newest: string | undefined;
  onClose: () => void;
}) {
  // There is no operation for a single machine. The search finds its id.
  const query = useQuery({
    queryKey: ["machines", "one", machineId],
    queryFn: async () => {
      const found = await send(
        api.GET("/v1/machines", {
          params: { query: { search: machineId, limit: 100 } },
        }),
      );
      return found.items.find((m) => m.machineId === machineId) ?? null;
    },
    refetchInterval: poll(detailInterval),
  });
  return (
    <Dialog kind="drawer" title={query.data ? machineName(query.data) : machineId} onClose={onClose}>
      <Loaded query={query} lines={6}>
        {(machine) =>
          machine ? (
            <Details machine={machine} newest={newest} onDeleted={onClose} />
          ) : (
            <Empty icon="server" title={texts.detail.notFound}>
              {texts.detail.notFoundHint}
            </Empty>
          )
        }
      </Loaded>
    </Dialog>
  );
}

function Details({
  machine,
  newest,
  onDeleted,
}: {
  machine: Machine;
  newest: string | undefined;
  onDeleted: () => void;
}) {
  const manages = useManages();
  const sessions = `/sessions?machineId=${encodeURIComponent(machine.machineId)}`;
  return (
    <>
      <div class="stack tight">
        <MachineBadges machine={machine} />
        <p class="faint">{texts.stateHints[machine.state]}</p>
      </div>
      {machine.duplicate && (
        <Notice tone="bad" title={texts.detail.duplicateTitle}>
          {texts.detail.duplicateHint}
        </Notice>
      )}
      <Facts machine={machine} newest={newest} />
      <div class="row">
        <ButtonLink to={`${sessions}&status=running`} icon="activity">
          {texts.detail.showRunning}
        </ButtonLink>
        <ButtonLink to={sessions} icon="log">
          {texts.detail.showSessions}
        </ButtonLink>
      </div>
      {manages && <MachineActions machine={machine} onDeleted={onDeleted} />}
      {machine.state !== "offline" && <DrainHint machine={machine} />}
    </>
  );
}

function Facts({ machine, newest }: { machine: Machine; newest: string | undefined }) {
  const { columns, detail } = texts;
  return (
    <dl class="facts">
      <dt>{columns.hostName}</dt>
      <dd class="machine-id">
        {machine.hostName ? (
          <>
            <code>{machine.hostName}</code>
            <CopyButton text={machine.hostName} label={detail.copyHost} />
          </>
        ) : (
          <span class="faint">{texts.notReported}</span>
        )}
      </dd>
      <dt>{columns.workerId}</dt>
      <dd>{machine.workerId ? <code>{machine.workerId}</code> : <span class="faint">{detail.noWorkerId}</span>}</dd>
      <dt>{columns.machineId}</dt>
      <dd class="machine-id">
        <code>{machine.machineId}</code>
        <CopyButton text={machine.machineId} label={detail.copyId} />
      </dd>
      <dt>{columns.publicUrl}</dt>
      <dd class="machine-id">
        {machine.publicUrl ? (
          <>
            <a href={machine.publicUrl} target="_blank" rel="noreferrer">
              {machine.publicUrl}
              <span class="visually-hidden"> (opens a new tab)</span>
            </a>
            <CopyButton text={machine.publicUrl} label={detail.copyUrl} />
          </>
        ) : (
          <span class="faint">{texts.notReported}</span>
        )}
      </dd>
      <dt>{columns.version}</dt>
      <dd>
        <Version machine={machine} newest={newest} />
      </dd>
      <dt>{columns.contractVersion}</dt>
      <dd>{machine.contractVersion ?? <span class="faint">{texts.notReported}</span>}</dd>
      <dt>{columns.sessions}</dt>
      <dd>
        <Capacity machine={machine} />
      </dd>
      <dt>{detail.running}</dt>
      <dd class="numeric">{machine.sessions}</dd>
      <dt>{detail.reserved}</dt>
      <dd class="numeric">{machine.reservedSlots}</dd>
      <dt>{detail.capacity}</dt>
      <dd class="numeric">{machine.capacity ?? detail.noMaximum}</dd>
      <dt>{columns.key}</dt>
      <dd>{machine.keyName ?? <span class="faint">{machine.keyId ? texts.unknownKey : texts.notReported}</span>}</dd>
      <dt>{columns.lastHeartbeatAt}</dt>
      <dd>
        <Time at={machine.lastHeartbeatAt} />
      </dd>
      <dt>{columns.firstSeenAt}</dt>
      <dd>{formatTime(machine.firstSeenAt)}</dd>
    </dl>
  );
}

/** How to drain a worker, or to let it accept sessions again. */
function DrainHint({ machine: { draining, publicUrl } }: { machine: Machine }) {
  const { detail } = texts;
  const workerUrl = publicUrl ?? detail.workerUrl;
  const method = draining ? "DELETE" : "POST";
  const command = [`curl -X ${method} \\`, `  -H "X-API-Key: $WORKER_KEY" \\`, `  ${workerUrl}/fleet/drain`].join("\n");
  return (
    <section class="stack tight">
      <h3>{draining ? detail.resume : detail.drain}</h3>
      <p>{draining ? detail.resumeHint : detail.drainHint}</p>
      <CodeBlock text={command} label={draining ? detail.resumeCommand : detail.drainCommand} />
      <p class="faint small">{publicUrl ? detail.commandNote : detail.commandNoteNoUrl(workerUrl)}</p>
    </section>
  );
}
