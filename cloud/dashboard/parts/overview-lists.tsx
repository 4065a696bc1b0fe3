import type { ComponentChildren } from "preact";
import { Link, useLocation } from "wouter-preact";
import { summaryInterval } from "../../../shared/web/api/query";
import {
  Badge,
  ButtonLink,
  Icon,
  Loaded,
  Table,
  Time,
  formatDuration,
  machineName,
  type Column,
  type Tone,
} from "../../../shared/web/ui";
import type { Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/overview";
import { texts as sessionTexts } from "../texts/sessions";
import { useLatestMachines, useMachineNames } from "./fleet";
import { isFull } from "./machine-state";
import { useOfflineMachines, useRecentSessions, useRefusals } from "./overview-data";
import { SessionBadge } from "./session-status";

/** A panel with a heading and a link to the whole list. */
function Panel({
  title,
  action,
  flush,
  children,
}: {
  title: string;
  action?: ComponentChildren;
  flush?: boolean;
  children: ComponentChildren;
}) {
  return (
    <section class={flush ? "stack tight" : "panel"}>
      <header class="row apart">
        <h2>{title}</h2>
        {action}
      </header>
      {children}
    </section>
  );
}

/** A list without items that says that all is well. */
function AllWell({ children }: { children: ComponentChildren }) {
  return (
    <p class="row faint">
      <Icon name="check" />
      {children}
    </p>
  );
}

const machineHref = (id: string) => `/machines?machine=${encodeURIComponent(id)}`;

/** The latest refusals: why, and what to do. */
export function Refusals() {
  const query = useRefusals();
  const manages = useManages();
  const has = (query.data?.items.length ?? 0) > 0;
  return (
    <Panel
      title={texts.refusals}
      action={
        has &&
        manages && (
          <ButtonLink to="/billing" size="small">
            {texts.changePlan}
          </ButtonLink>
        )
      }
    >
      <Loaded query={query}>
        {({ items }) =>
          items.length === 0 ? (
            <AllWell>{texts.noRefusals}</AllWell>
          ) : (
            <div class="stack tight">
              {groupByReason(items).map(([reason, events]) => (
                <RefusalGroup key={reason} reason={reason} events={events} />
              ))}
              {!manages && <p class="faint small">{texts.askManager}</p>}
            </div>
          )
        }
      </Loaded>
    </Panel>
  );
}

type RefusalKind = keyof typeof texts.refusal;

function groupByReason(events: Schema<"LicenseEvent">[]): [RefusalKind, Schema<"LicenseEvent">[]][] {
  const groups = new Map<RefusalKind, Schema<"LicenseEvent">[]>();
  for (const event of events) {
    const reason = event.reason ?? "other";
    groups.set(reason, [...(groups.get(reason) ?? []), event]);
  }
  return [...groups];
}

/** The refusals with one reason, and what to do about them. */
function RefusalGroup({ reason, events }: { reason: RefusalKind; events: Schema<"LicenseEvent">[] }) {
  const { title, todo } = texts.refusal[reason];
  return (
    <>
      <h3>{title}</h3>
      <p class="small">{todo}</p>
      <ul class="overview-items">
        {events.map((event) => (
          <Refusal key={event.id} event={event} />
        ))}
      </ul>
    </>
  );
}

function Refusal({ event }: { event: Schema<"LicenseEvent"> }) {
  const machines = useMachineNames();
  return (
    <li class="row apart">
      <span class="row">
        {event.machineId ? (
          <Link href={machineHref(event.machineId)} title={event.machineId}>
            {machines.get(event.machineId) ?? event.machineId}
          </Link>
        ) : (
          texts.severalMachines
        )}
        {event.count > 1 && <Badge>{texts.times(event.count)}</Badge>}
      </span>
      <span class="row faint small numeric">
        {event.current !== null && event.limit !== null && <span>{texts.used(event.current, event.limit)}</span>}
        <Time at={event.lastAt} />
      </span>
    </li>
  );
}

type Reason = keyof typeof texts.attentionReason;

const reasonTones: Record<Reason, Tone> = {
  duplicate: "bad",
  offline: "bad",
  full: "wait",
  draining: "wait",
};

/** Why a machine needs attention, the most serious reason first. */
function reasonOf(machine: Schema<"Machine">): Reason | undefined {
  if (machine.duplicate) return "duplicate";
  if (machine.state === "offline") return "offline";
  if (isFull(machine)) return "full";
  if (machine.state === "draining") return "draining";
  return undefined;
}

/** Machines that are offline, have a duplicate id, drain or are full. */
export function Attention() {
  const latest = useLatestMachines(summaryInterval);
  const offline = useOfflineMachines();
  const order: Reason[] = ["duplicate", "offline", "full", "draining"];
  const found = new Map<string, Schema<"Machine">>();
  for (const m of [...(latest.data?.items ?? []), ...(offline.data?.items ?? [])]) found.set(m.machineId, m);
  const rows = [...found.values()]
    .flatMap((machine) => {
      const reason = reasonOf(machine);
      return reason ? [{ machine, reason }] : [];
    })
    .sort((a, b) => order.indexOf(a.reason) - order.indexOf(b.reason))
    .slice(0, 6);
  return (
    <Panel title={texts.attention} action={<Link href="/machines">{texts.allMachines}</Link>}>
      <Loaded query={latest}>
        {({ pagination }) =>
          rows.length === 0 ? (
            pagination.total === 0 ? (
              <p class="faint">{texts.noMachines}</p>
            ) : (
              <AllWell>{texts.allWell}</AllWell>
            )
          ) : (
            <ul class="overview-items">
              {rows.map(({ machine, reason }) => (
                <AttentionRow key={machine.machineId} machine={machine} reason={reason} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function AttentionRow({ machine, reason }: { machine: Schema<"Machine">; reason: Reason }) {
  const { title, todo } = texts.attentionReason[reason];
  return (
    <li>
      <div class="row apart">
        <Link class="strong truncate" href={machineHref(machine.machineId)} title={machine.machineId}>
          {machineName(machine)}
        </Link>
        <Badge tone={reasonTones[reason]}>{title}</Badge>
      </div>
      <p class="row faint small">
        <span>{todo}</span>
        <Time at={machine.lastHeartbeatAt} />
      </p>
    </li>
  );
}

/** The sessions that started last. */
export function RecentSessions() {
  const query = useRecentSessions();
  const columns = recentColumns(useMachineNames());
  const [, navigate] = useLocation();
  return (
    <Panel flush title={texts.recent} action={<Link href="/sessions">{texts.allSessions}</Link>}>
      <Loaded query={query} lines={5}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="panel faint">{texts.noSessions}</p>
          ) : (
            <Table
              label={texts.recent}
              columns={columns}
              items={items}
              keyOf={(s) => s.id}
              onOpen={(s) => navigate(`/sessions/${s.id}`)}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

const { columns } = sessionTexts;

const recentColumns = (machines: Map<string, string>): Column<Schema<"Session">>[] => [
  {
    id: "profile",
    title: columns.profile,
    look: "title",
    cell: (s) => (
      <Link class="truncate" href={`/sessions/${s.id}`} title={s.profileName}>
        {s.profileName}
      </Link>
    ),
  },
  {
    id: "status",
    title: columns.status,
    look: "corner",
    cell: (s) => <SessionBadge session={s} />,
  },
  {
    id: "machine",
    title: columns.machine,
    cell: (s) => (
      <span class="truncate" title={s.machineId}>
        {machines.get(s.machineId) ?? s.machineId}
      </span>
    ),
  },
  {
    id: "startedAt",
    title: columns.startedAt,
    look: "fit",
    cell: (s) => <Time at={s.startedAt} />,
  },
  {
    id: "duration",
    title: columns.duration,
    look: "end fit",
    cell: (s) => <span class="numeric">{formatDuration(s.durationSeconds)}</span>,
  },
];
