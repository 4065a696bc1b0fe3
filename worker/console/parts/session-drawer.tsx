import { useQuery, useQueryClient } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll } from "../../../shared/web/api/query";
import { ApiError } from "../../../shared/web/api/errors";
import {
  Button,
  ButtonLink,
  CopyButton,
  Dialog,
  Empty,
  ErrorNotice,
  Loaded,
  Time,
  formatDuration,
  useAddress,
  formatBytes,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { statusQuery } from "../live";
import { texts } from "../texts/sessions";
import { Section } from "./drawer-section";
import { NavigateForm } from "./navigate-form";
import { PageFiles } from "./page-files";
import { EndDialog, addressOf, nameOf, openPage, type BrowserPage } from "./session-actions";
import { durationOf, modeOf } from "./session-card";
import { SessionConnect, withoutToken } from "./session-connect";
import { ExpiryNotice } from "./session-expiry";
import { SessionFiles } from "./session-files";
import { HandoverNotice } from "./session-handover";
import { SessionLog } from "./session-log";
import { SessionNetwork } from "./session-network";
import { RecordingButtons, SessionRecording, SessionScript } from "./session-recording";
import { SessionStatus, endOf } from "./session-status";
import { Thumbnail } from "./thumbnail";
import { ViewTicketForm } from "./view-ticket";
import "./session-drawer.css";

type Session = Schema<"BrowserSession">;
const t = texts.drawer;

/** The details of a session: at the right edge, or with `open=here` in the whole window, beside the live view. */
export function SessionDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const [address] = useAddress<"open">();
  const session = useQuery({
    queryKey: ["session", id],
    queryFn: () =>
      send(
        api.GET("/sessions/{sessionId}", {
          params: { path: { sessionId: id } },
        }),
      ),
    refetchInterval: (query) => (query.state.data?.status === "running" ? poll(detailInterval)(query) : false),
  });
  const missing = session.error instanceof ApiError && [400, 404].includes(session.error.status);
  return (
    <Dialog
      kind={address.open === "here" && session.data?.status === "running" ? "full" : "drawer"}
      title={session.data ? nameOf(session.data) : t.title}
      onClose={onClose}
    >
      {missing ? (
        <Empty icon="activity" title={t.notFound}>
          {t.notFoundHint}
        </Empty>
      ) : (
        <Loaded query={session} lines={8}>
          {(data) => <Content session={data} />}
        </Loaded>
      )}
    </Dialog>
  );
}

function Content({ session }: { session: Session }) {
  const running = session.status === "running";
  const [address] = useAddress<"open">();
  const [revision, setRevision] = useState(0);
  const here = address.open === "here";
  return (
    <>
      <Actions session={session} />
      {running && (
        <>
          {here ? (
            <LiveView session={session} />
          ) : (
            <div class="drawer-picture">
              <Thumbnail session={session} width={1200} revision={revision} />
            </div>
          )}
          <NavigateForm launchId={session.launchId} onDone={() => setRevision((now) => now + 1)} />
        </>
      )}
      <Section title={t.facts}>
        <Facts session={session} />
      </Section>
      {running && (
        <>
          <Section title={t.connect}>
            <p class="faint small">{t.addressesHint}</p>
            {session.webSocketDebuggerUrl && <SessionConnect session={session} />}
            <Addresses session={session} />
          </Section>
          <Section title={t.share}>
            <ViewTicketForm launchId={session.launchId} />
          </Section>
          <Section title={t.page}>
            <PageFiles session={session} />
          </Section>
          <Section title={t.log}>
            <SessionLog launchId={session.launchId} />
          </Section>
          <Section title={texts.recording}>
            <SessionRecording session={session} />
          </Section>
        </>
      )}
      <SessionScript session={session} />
      <SessionNetwork session={session} />
      <SessionFiles session={session} />
      <Section title={t.metadata}>
        <Labels metadata={session.metadata} />
      </Section>
      <Section title={t.timeline}>
        <Timeline session={session} />
      </Section>
    </>
  );
}

/** Leads from the address of a link, such as of the dashboard, to the live view. Back returns to the session. */
function useOpenedView(session: Session, onError: (error: unknown) => void): void {
  const [address, change] = useAddress<"open">();
  useEffect(() => {
    if (address.open !== "view") return;
    change({ open: "" }, true);
    addressOf(session, "view").then((url) => location.assign(url), onError);
  }, [address.open]);
}

/** The live view in the page. The worker allows it only to pages of its own origin. */
function LiveView({ session }: { session: Session }) {
  const view = useQuery({
    queryKey: ["view", session.launchId],
    queryFn: () => addressOf(session, "view"),
    staleTime: Infinity, // a new address would load the view again
    gcTime: 0,
  });
  return (
    <Loaded query={view} lines={8}>
      {(url) => <iframe class="drawer-view" src={url} title={t.live} allow="clipboard-read; clipboard-write" />}
    </Loaded>
  );
}

/** The main actions. Their errors are shown here: a message at the edge of the page would be behind the drawer. */
function Actions({ session }: { session: Session }) {
  const queries = useQueryClient();
  const [ending, setEnding] = useState(false);
  const [error, setError] = useState<unknown>();
  const [address, change] = useAddress<"open">();
  const here = address.open === "here";
  useOpenedView(session, setError);
  const open = (page: BrowserPage) => {
    setError(undefined);
    openPage(session, page).catch((failure: unknown) => {
      setError(failure);
      void queries.invalidateQueries({ queryKey: ["session", session.id] });
    });
  };
  if (session.status !== "running")
    return (
      <div class="row">
        <SessionStatus session={session} />
        <span class="grow">{endOf(session)}</span>
        <RecordingButtons session={session} onOpen={(_, page) => open(page)} />
        <ButtonLink to={`/launch?profileId=${session.profileId}`} size="small" icon="refresh">
          {texts.launchAgain}
        </ButtonLink>
        {error ? <ErrorNotice error={error} /> : null}
      </div>
    );
  return (
    <>
      <HandoverNotice session={session} onOpen={() => open("view")} />
      <ExpiryNotice session={session} />
      <div class="row">
        <SessionStatus session={session} />
        <span class="grow" />
        <RecordingButtons session={session} onOpen={(_, page) => open(page)} />
        {session.viewUrl && new URL(session.viewUrl).origin === location.origin && (
          <Button
            kind="primary"
            size="small"
            icon="eye"
            aria-pressed={here}
            onClick={() => change({ open: here ? "" : "here" })}
          >
            {texts.viewHere}
          </Button>
        )}
        <Button size="small" icon="external" title={texts.newTab} onClick={() => open("view")}>
          {texts.view}
        </Button>
        {session.devtoolsFrontendUrl && (
          <Button size="small" icon="code" title={texts.newTab} onClick={() => open("devtools")}>
            {texts.devtools}
          </Button>
        )}
        <Button size="small" icon="external" title={texts.newTab} onClick={() => open("browser")}>
          {texts.browserPage}
        </Button>
        <Button size="small" kind="danger" icon="stop" onClick={() => setEnding(true)}>
          {texts.end}
        </Button>
      </div>
      {error ? <ErrorNotice error={error} /> : null}
      {ending && <EndDialog session={session} onClose={() => setEnding(false)} />}
    </>
  );
}

/** Returns the names and values that apply to the session. */
function factsOf(session: Session): [string, ComponentChildren][] {
  const { fact } = t;
  const start = session.start.warm ? t.warm : t.cold(session.start.coldReasons);
  const facts: [string, ComponentChildren][] = [
    ...(session.name ? [[fact.profile, session.profileName] as [string, ComponentChildren]] : []),
    [fact.browser, `${texts.browser(session.browserVersion)}, ${modeOf(session).toLowerCase()}`],
    [fact.bundle, session.bundle?.name ?? fact.noBundle],
    [fact.start, start],
    [fact.started, <Time at={session.startedAt} />],
    [fact.duration, formatDuration(durationOf(session))],
  ];
  if (session.expiresAt && session.expiresReason) {
    facts.push([
      fact.expires,
      <>
        <Time at={session.expiresAt} />: {t.expiresReason(session.expiresReason)}
      </>,
    ]);
  }
  if (session.endedAt) {
    facts.push([fact.ended, <Time at={session.endedAt} />]);
    facts.push([fact.endReason, texts.endReason(session.endReason)]);
    if (session.recording) facts.push([texts.recording, t.recordingState(session.recording)]);
  }
  if (session.exitCode !== null) facts.push([fact.exitCode, texts.exitCode(session.exitCode)]);
  if (session.dataSaved !== null)
    facts.push([fact.data, session.dataSaved ? t.saved : t.notSaved(session.dataNotSavedReason)]);
  if (session.proxyTraffic) {
    const { receivedBytes, sentBytes } = session.proxyTraffic;
    const text = t.traffic(formatBytes(receivedBytes), formatBytes(sentBytes));
    facts.push([fact.proxy, text]);
  }
  return facts;
}

function Facts({ session }: { session: Session }) {
  const { fact } = t;
  const ids: [string, string][] = [
    [fact.sessionId, session.id],
    [fact.launchId, session.launchId],
    [fact.profileId, session.profileId],
  ];
  return (
    <dl class="facts">
      {factsOf(session).map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
      {session.status === "running" && <Activity id={session.id} />}
      {ids.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd class="row copied">
            <code>{value}</code>
            <CopyButton text={value} label={t.copy(name)} />
          </dd>
        </>
      ))}
    </dl>
  );
}

/** The clients of a running session, which only the state of the machine has. */
function Activity({ id }: { id: string }) {
  const status = useQuery(statusQuery);
  const found = status.data?.sessions.find((s) => s.id === id);
  if (!found) return null;
  return (
    <>
      <dt>{t.fact.clients}</dt>
      <dd>{found.clients}</dd>
      <dt>{t.fact.activity}</dt>
      <dd>
        <Time at={found.lastActivityAt} />
      </dd>
    </>
  );
}

/** Shows addresses without their tokens; the copied text has the token. */
function Addresses({ session }: { session: Session }) {
  const port = session.debugPort === null ? null : `localhost:${session.debugPort}`;
  const addresses: [string, string | null][] = [
    [t.cdp, session.webSocketDebuggerUrl],
    [t.port, port],
    [t.live, session.viewUrl],
    [t.devtools, session.devtoolsFrontendUrl],
  ];
  return (
    <dl class="facts">
      {addresses.map(
        ([name, address]) =>
          address && (
            <>
              <dt>{name}</dt>
              <dd class="row copied">
                <code>{withoutToken(address)}</code>
                <CopyButton text={address} label={t.copy(name)} />
              </dd>
            </>
          ),
      )}
    </dl>
  );
}

function Labels({ metadata }: { metadata: Session["metadata"] }) {
  const labels = Object.entries(metadata);
  if (labels.length === 0) return <p class="faint">{t.noMetadata}</p>;
  return (
    <dl class="facts">
      {labels.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Timeline({ session }: { session: Session }) {
  return (
    <ol class="timeline">
      {session.timeline.map((step) => (
        <li key={step.step}>
          <span class="row apart">
            {t.step(step.step)}
            <span class="faint numeric small">
              {step.step === "ended" ? <Time at={step.at} /> : t.after(step.afterMs)}
            </span>
          </span>
        </li>
      ))}
    </ol>
  );
}
