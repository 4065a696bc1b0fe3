import { Link } from "wouter-preact";
import { Badge, Button, CopyButton, Menu, Time, formatDuration } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";
import { nameOf, type BrowserPage } from "./session-actions";
import { ExpiryNotice } from "./session-expiry";
import { HandoverNotice } from "./session-handover";
import { RecordingButtons } from "./session-recording";
import { SessionStatus, endOf } from "./session-status";
import { Thumbnail } from "./thumbnail";

type Session = Schema<"BrowserSession">;

export interface SessionActions {
  /** The address of the details. */
  linkTo: (session: Session) => string;
  onOpen: (session: Session, page: BrowserPage) => void;
  onEnd: (session: Session) => void;
  onDetails: (session: Session) => void;
}

/** The buttons of a running session. */
export function SessionButtons({ session, onOpen, onEnd, onDetails }: { session: Session } & SessionActions) {
  return (
    <div class="row session-buttons">
      <Button
        size="small"
        icon="eye"
        title={texts.newTab}
        aria-label={`${texts.view}: ${nameOf(session)}`}
        onClick={() => onOpen(session, "view")}
      >
        {texts.view}
      </Button>
      {session.devtoolsFrontendUrl && (
        <Button
          size="small"
          icon="code"
          title={texts.newTab}
          aria-label={`${texts.devtools}: ${nameOf(session)}`}
          onClick={() => onOpen(session, "devtools")}
        >
          {texts.devtools}
        </Button>
      )}
      {session.webSocketDebuggerUrl && <CopyButton text={session.webSocketDebuggerUrl} label={texts.copyCdp} />}
      <Menu
        label={texts.more(nameOf(session))}
        items={[
          {
            label: texts.details,
            icon: "info",
            onSelect: () => onDetails(session),
          },
          {
            label: texts.browserPage,
            icon: "external",
            onSelect: () => onOpen(session, "browser"),
          },
          "separator",
          {
            label: texts.end,
            icon: "stop",
            danger: true,
            onSelect: () => onEnd(session),
          },
        ]}
      />
    </div>
  );
}

/** Whether a browser has a window, or is a headless shell. */
export function modeOf({ engine, headless }: Session): string {
  if (engine === "headless-shell") return texts.shell;
  return headless ? texts.headless : texts.windowed;
}

/** The kind of browser: version, mode and bundle. */
export function BrowserBadges({ session }: { session: Session }) {
  return (
    <span class="row session-badges">
      <Badge>{texts.browser(session.browserVersion)}</Badge>
      <Badge>{modeOf(session)}</Badge>
      {session.bundle && <Badge>{session.bundle.name}</Badge>}
    </span>
  );
}

/** The seconds between the start and the end of a session. */
export function durationOf(session: Session): number {
  const end = session.endedAt ? Date.parse(session.endedAt) : Date.now();
  return (end - Date.parse(session.startedAt)) / 1000;
}

/** A session on the wall: its screen, what it is, and what can be done with it. */
export function SessionCard({ session, paused, ...actions }: { session: Session; paused: boolean } & SessionActions) {
  const running = session.status === "running";
  const picture = <Thumbnail session={session} width={480} paused={paused} />;
  return (
    <li class="panel flush session-card">
      {running ? (
        <button
          type="button"
          class="picture"
          tabIndex={-1}
          aria-hidden="true"
          title={texts.viewOf(nameOf(session))}
          onClick={() => actions.onOpen(session, "view")}
        >
          {picture}
        </button>
      ) : (
        picture
      )}
      <div class="stack tight body">
        <div class="row apart">
          <Link href={actions.linkTo(session)} class="truncate grow strong">
            {nameOf(session)}
          </Link>
          <SessionStatus session={session} />
        </div>
        <HandoverNotice session={session} onOpen={() => actions.onOpen(session, "view")} />
        <ExpiryNotice session={session} />
        <BrowserBadges session={session} />
        <p class="faint small">
          {running ? (
            <>
              {texts.started} <Time at={session.startedAt} />
            </>
          ) : (
            <>
              {endOf(session)} <Time at={session.endedAt} /> · {texts.ran} {formatDuration(durationOf(session))}
            </>
          )}
        </p>
        {running && <SessionButtons session={session} {...actions} />}
        <RecordingButtons session={session} onOpen={actions.onOpen} />
      </div>
    </li>
  );
}
