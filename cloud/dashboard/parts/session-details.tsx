import { useQuery } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { Link } from "wouter-preact";
import { ApiError } from "../../../shared/web/api/errors";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import {
  Badge,
  CopyButton,
  Dialog,
  Empty,
  ExternalButton,
  Loaded,
  Time,
  formatDuration,
  NetworkTraffic,
  formatTime,
  machineName,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { consolePage } from "./fleet";
import { MachineBadges } from "./machine-state";
import { SessionBadge } from "./session-status";

type Detail = Schema<"SessionDetail">;

const { columns, detail } = texts;

/** A drawer with a session, its slot, its timeline and its license events. */
export function SessionDrawer({ sessionId, onClose }: { sessionId: string; onClose: () => void }) {
  const query = useQuery({
    queryKey: ["sessions", "one", sessionId],
    queryFn: () =>
      send(
        api.GET("/v1/sessions/{sessionId}", {
          params: { path: { sessionId } },
        }),
      ),
    refetchInterval: (query) => (query.state.data?.status === "running" ? poll(detailInterval)(query) : false),
  });
  const { error } = query;
  // An invalid id in the address returns 400.
  const missing = error instanceof ApiError && (error.status === 404 || error.status === 400);
  return (
    <Dialog kind="drawer" title={query.data?.name ?? query.data?.profileName ?? detail.title} onClose={onClose}>
      {missing ? (
        <Empty icon="activity" title={detail.notFound}>
          {detail.notFoundHint}
        </Empty>
      ) : (
        <Loaded query={query} lines={8}>
          {(session) => <Details session={session} />}
        </Loaded>
      )}
    </Dialog>
  );
}

function Details({ session }: { session: Detail }) {
  const { endReason } = session;
  return (
    <>
      <div class="stack tight">
        <div class="row">
          <SessionBadge session={session} />
          <span class="faint numeric">{formatDuration(session.durationSeconds)}</span>
        </div>
        {endReason && <p>{texts.endReasons[endReason].explanation}</p>}
      </div>
      <WorkerLinks session={session} />
      <Facts session={session} />
      <Network session={session} />
      <Slot session={session} />
      <Timeline moments={session.timeline} />
      <Events session={session} />
    </>
  );
}

/** How long a worker lists an ended session. */
const listedMs = 3_600_000;

/** Links to what only the worker has: the session's page, the live view and the recording. */
function WorkerLinks({ session: { id, machine, recording, endedAt } }: { session: Detail }) {
  const listed = endedAt === null || Date.now() - Date.parse(endedAt) < listedMs;
  const page = machine && listed ? consolePage(machine, `/sessions/${id}`) : undefined;
  const played = endedAt !== null && recording?.url;
  const traced = endedAt !== null && recording?.viewerUrl;
  if (machine && listed && !page) return <p class="faint small">{detail.noUrl}</p>;
  if (!page && !played) return null;
  return (
    <div class="stack tight">
      <div class="row">
        {page && endedAt === null && (
          <ExternalButton href={`${page}?open=view`} icon="eye" kind="primary">
            {detail.view}
          </ExternalButton>
        )}
        {played && (
          <ExternalButton href={played} icon="play" kind="primary">
            {detail.recording}
          </ExternalButton>
        )}
        {traced && (
          <ExternalButton href={traced} icon="play">
            {detail.trace}
          </ExternalButton>
        )}
        {page && <ExternalButton href={page}>{detail.workerPage}</ExternalButton>}
      </div>
      <p class="faint small">{detail.workerKey}</p>
    </div>
  );
}

/** An id with a button that copies it. */
function Id({ id, label }: { id: string; label: string }) {
  return (
    <span class="drawer-id">
      <code>{id}</code>
      <CopyButton text={id} label={label} />
    </span>
  );
}

function Facts({ session }: { session: Detail }) {
  return (
    <dl class="facts">
      {session.name && (
        <>
          <dt>{detail.name}</dt>
          <dd>{session.name}</dd>
        </>
      )}
      <dt>{detail.id}</dt>
      <dd>
        <Id id={session.id} label={detail.copyId} />
      </dd>
      <dt>{columns.profile}</dt>
      <dd class="stack tight">
        <span class="row">
          <Link href={`/profiles/${session.profileId}`}>{session.profileName}</Link>
          <CopyButton text={session.profileId} label={detail.copyProfileId} />
        </span>
        <Link class="small" href={`/sessions?profileId=${session.profileId}`}>
          {detail.sessionsOfProfile}
        </Link>
      </dd>
      <dt>{columns.browser}</dt>
      <dd>{detail.version(session.browserVersion)}</dd>
      <dt>{columns.startedAt}</dt>
      <dd>{formatTime(session.startedAt)}</dd>
      <dt>{columns.endedAt}</dt>
      <dd>{session.endedAt ? formatTime(session.endedAt) : detail.notEnded}</dd>
      <dt>{columns.machine}</dt>
      <dd class="stack tight">
        <MachineOf session={session} />
      </dd>
      <dt>{columns.key}</dt>
      <dd>{session.keyName ?? <span class="faint">{texts.unknownKey}</span>}</dd>
      <dt>{detail.launchId}</dt>
      <dd>
        <Id id={session.launchId} label={detail.copyLaunchId} />
      </dd>
      <Labels metadata={session.metadata} />
    </dl>
  );
}

/** The labels of a session, as links to the sessions with the same label. */
function Labels({ metadata }: { metadata: Detail["metadata"] }) {
  const labels = Object.entries(metadata).map(([name, value]) => `${name}=${value}`);
  if (labels.length === 0) return null;
  return (
    <>
      <dt>{detail.metadata}</dt>
      <dd class="stack tight">
        {labels.map((label) => (
          <Link key={label} href={`/sessions?label=${encodeURIComponent(label)}`}>
            {label}
          </Link>
        ))}
      </dd>
    </>
  );
}

function MachineOf({ session }: { session: Detail }) {
  const { machine, machineId } = session;
  return (
    <>
      <span class="row">
        {machine ? (
          <Link href={`/machines?machine=${encodeURIComponent(machineId)}`}>{machineName(machine)}</Link>
        ) : (
          <code>{machineId}</code>
        )}
        {machine && machineName(machine) !== machineId && <code class="faint small">{machineId}</code>}
        <CopyButton text={machineId} label={detail.copyMachineId} />
      </span>
      {machine ? <MachineBadges machine={machine} /> : <span class="faint small">{detail.machineGone}</span>}
    </>
  );
}

function Section({ title, hint, children }: { title: string; hint?: string; children: ComponentChildren }) {
  return (
    <section class="stack tight">
      <div>
        <h3>{title}</h3>
        {hint && <p class="faint small">{hint}</p>}
      </div>
      {children}
    </section>
  );
}

function Network({ session: { network, networkHosts } }: { session: Detail }) {
  return (
    <Section title={detail.network}>
      {network ? (
        <NetworkTraffic totals={network} hosts={networkHosts ?? []} />
      ) : (
        <p class="faint">{detail.noNetwork}</p>
      )}
    </Section>
  );
}

function Slot({ session: { slot } }: { session: Detail }) {
  if (!slot)
    return (
      <Section title={detail.slot}>
        <p class="faint">{detail.slotGone}</p>
      </Section>
    );
  return (
    <Section title={detail.slot} hint={detail.slotHint}>
      <dl class="facts">
        <dt>{detail.state}</dt>
        <dd>{detail.states[slot.state]}</dd>
        <dt>{detail.lease}</dt>
        <dd>{slot.leaseUntil ? formatTime(slot.leaseUntil) : detail.noLease}</dd>
        <dt>{detail.stale}</dt>
        <dd>{slot.stale ? <Badge tone="wait">{detail.staleYes}</Badge> : detail.staleNo}</dd>
        <dt>{detail.release}</dt>
        <dd>{slot.releaseReason ? detail.releases[slot.releaseReason] : detail.notReleased}</dd>
        <dt>{detail.slotId}</dt>
        <dd>
          <Id id={slot.slotId} label={detail.copySlotId} />
        </dd>
      </dl>
    </Section>
  );
}

const momentTones: Partial<Record<Schema<"SessionMomentKind">, string>> = {
  started: "good",
  refused: "bad",
  lapsed: "bad",
  omitted: "bad",
};

function Timeline({ moments }: { moments: Detail["timeline"] }) {
  return (
    <Section title={detail.timeline}>
      {moments.length === 0 ? (
        <p class="faint">{detail.noTimeline}</p>
      ) : (
        <ol class="timeline session-timeline">
          {moments.map((moment) => (
            <li key={moment.what + moment.at} class={momentTones[moment.what] ?? ""}>
              <p>{momentText(moment)}</p>
              <p class="faint small">
                {formatTime(moment.at)} · <Time at={moment.at} />
              </p>
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}

/** What happened, with the reason in words. */
function momentText({ what, reason }: Schema<"SessionMoment">): string {
  const text = detail.moments[what];
  if (!reason) return text;
  const ends: Record<string, { title: string } | undefined> = texts.endReasons;
  return `${text}: ${detail.refusal[reason] ?? ends[reason]?.title ?? reason}`;
}

function Events({ session }: { session: Detail }) {
  const query = useQuery({
    queryKey: ["license-events", "session", session.id],
    queryFn: () =>
      send(
        api.GET("/v1/license/events", {
          params: {
            query: { sessionId: session.id, limit: 20, sortOrder: "asc" },
          },
        }),
      ),
    refetchInterval: session.status === "running" ? poll(summaryInterval) : false,
  });
  return (
    <Section title={detail.events}>
      <Loaded query={query} lines={2}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <p class="faint">{detail.noEvents}</p>
          ) : (
            <>
              <ul class="session-events">
                {items.map((event) => (
                  <li key={event.id}>
                    <Event event={event} />
                  </li>
                ))}
              </ul>
              {pagination.total > items.length && (
                <p class="faint small">{detail.moreEvents(pagination.total - items.length)}</p>
              )}
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

function Event({ event }: { event: Schema<"LicenseEvent"> }) {
  const reason = event.reason && detail.refusal[event.reason];
  return (
    <>
      <span>
        {detail.event[event.kind]}
        {reason && `: ${reason}`}
        {event.count > 1 && ` (${detail.count(event.count)})`}
      </span>{" "}
      <span class="faint small">{formatTime(event.lastAt)}</span>
    </>
  );
}
