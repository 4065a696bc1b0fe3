import { useQuery } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { Button, Empty, ErrorNotice, Loading, Notice, SkipLink } from "../../../shared/web/ui";
import { api, sendFile, slowApi } from "../api";
import { PlayerEvents, parseEvents, type RecordedEvent } from "../parts/player-events";
import { SignInForm } from "../parts/sign-in-form";
import { texts } from "../texts/player";
import "./player.css";

/** Returns the session whose recording the address of the page shows, and the page. */
export function recordedSession(path: string): { sessionId: string; page: string } | undefined {
  const [, sessionId, page] = /\/sessions\/([^/]+)\/recording\/(player|viewer)$/.exec(path) ?? [];
  return sessionId && page ? { sessionId, page } : undefined;
}

/** How far the arrow keys move, in seconds. */
const step = 5;

/** How much less than the requested time a video can report, in milliseconds. */
const rounding = 2;

/** The format of videos that this web browser plays. */
const format = () =>
  document.createElement("video").canPlayType('video/webm; codecs="vp8"') ? ("webm" as const) : ("mp4" as const);

interface Recording {
  video: boolean;
  events: RecordedEvent[] | undefined;
}

/** Returns undefined for a part that was not recorded. */
async function optional<T>(part: Promise<T>): Promise<T | undefined> {
  try {
    return await part;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

async function fetchRecording(sessionId: string): Promise<Recording> {
  const path = { sessionId };
  const header = { Range: "bytes=0-0" };
  const query = { format: format() }; // the first request for MP4 converts the video
  const [video, events] = await Promise.all([
    optional(
      sendFile(slowApi.GET("/sessions/{sessionId}/recording", { params: { path, header, query }, parseAs: "blob" })),
    ),
    optional(sendFile(api.GET("/sessions/{sessionId}/recording/events", { params: { path }, parseAs: "blob" }))),
  ]);
  if (!video && !events) throw new ApiError(404, "RESOURCE_NOT_FOUND", texts.none);
  return { video: video !== undefined, events: events && parseEvents(await events.text()) };
}

/** The page with the recording of a session. It works with a recording ticket, so it shows nothing else of the worker. */
export function Player({ sessionId }: { sessionId: string }) {
  const recording = useQuery({
    queryKey: ["recording", sessionId],
    queryFn: () => fetchRecording(sessionId),
    retry: false,
  });
  return (
    <RecordingPage title={texts.title} sessionId={sessionId}>
      {recording.data ? (
        <Playback sessionId={sessionId} recording={recording.data} />
      ) : recording.error ? (
        <Failure error={recording.error} sessionId={sessionId} onRetry={() => void recording.refetch()} />
      ) : (
        <Loading />
      )}
    </RecordingPage>
  );
}

/** The frame of a page with the recording of a session. */
export function RecordingPage({
  title,
  sessionId,
  children,
}: {
  title: string;
  sessionId: string;
  children: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${title} · ${texts.product} ${texts.application}`;
  }, [title]);
  return (
    <div class="frame">
      <SkipLink label={texts.skip} />
      <header class="top-bar">
        <p class="brand">
          {texts.product} <span>{texts.application}</span>
        </p>
      </header>
      <main id="content" class="content stack" tabIndex={-1}>
        <h1>{title}</h1>
        <p class="faint small">
          {texts.session} <code>{sessionId}</code>
        </p>
        {children}
      </main>
    </div>
  );
}

/** Says why there is no recording to show, or asks for the worker key. `trace` is for the trace viewer. */
export function Failure({
  error,
  sessionId,
  trace = false,
  onRetry,
}: {
  error: unknown;
  sessionId: string;
  trace?: boolean;
  onRetry: () => void;
}) {
  const status = error instanceof ApiError ? error.status : 0;
  if (status === 401) return <SignIn sessionId={sessionId} trace={trace} />;
  if (status === 404 || status === 400)
    return (
      <Empty icon="play" title={texts.none}>
        {texts.noneHint}
      </Empty>
    );
  if (status !== 409) return <ErrorNotice error={error} onRetry={onRetry} />;
  return (
    <Empty
      icon="play"
      title={texts.running}
      action={
        <Button icon="refresh" onClick={onRetry}>
          {texts.retry}
        </Button>
      }
    >
      {texts.runningHint}
    </Empty>
  );
}

/** Asks for the worker key. A video sends cookies only, so the key is exchanged for a ticket of the recording. */
function SignIn({ sessionId, trace }: { sessionId: string; trace: boolean }) {
  const [error, setError] = useState<unknown>();
  const exchange = () => {
    const params = { path: { sessionId } };
    send(api.POST("/sessions/{sessionId}/recording/ticket", { params }))
      .then((ticket) => location.replace((trace && ticket.viewerUrl) || ticket.url))
      .catch(setError);
  };
  return (
    <section class="panel stack centered">
      <h2>{texts.signIn}</h2>
      <p class="faint">{texts.signInHint}</p>
      <SignInForm onSignedIn={exchange} />
      {error ? <ErrorNotice error={error} /> : null}
    </section>
  );
}

/** The keys of the video, also while the focus is in the list of events. */
function usePlayerKeys(video: () => HTMLVideoElement | null): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = video();
      const target = event.target as Element;
      const busy = target.closest("input, select, textarea, button, a, summary") && !target.closest(".player-list");
      if (!at || busy || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.type === "keydown") {
        if (event.key === " ") toggle(at);
        else if (event.key === "ArrowLeft") at.currentTime -= step;
        else if (event.key === "ArrowRight") at.currentTime += step;
        else return;
      } else if (event.key !== " ") return; // a button is clicked when the space key is released
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    document.addEventListener("keyup", onKey);
    return () => {
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("keyup", onKey);
    };
  }, []);
}

function toggle(video: HTMLVideoElement): void {
  if (video.paused)
    void video.play().catch(() => undefined); // the element shows its own error
  else video.pause();
}

function Playback({ sessionId, recording }: { sessionId: string; recording: Recording }) {
  const video = useRef<HTMLVideoElement>(null);
  const [atMs, setAtMs] = useState(0);
  usePlayerKeys(() => video.current);
  const seek = (to: number) => {
    setAtMs(to);
    if (video.current) video.current.currentTime = to / 1000;
  };
  return (
    <>
      <div class={recording.video ? "player" : "player bare"}>
        <div class="player-video">
          {recording.video ? (
            <Video sessionId={sessionId} element={video} onTime={setAtMs} />
          ) : (
            <Notice>{texts.noVideo}</Notice>
          )}
        </div>
        <section class="stack tight" aria-label={texts.events}>
          <h2>{texts.events}</h2>
          {recording.events ? (
            <PlayerEvents events={recording.events} atMs={atMs} onSeek={seek} />
          ) : (
            <p class="faint">{texts.noEvents}</p>
          )}
        </section>
      </div>
      <p class="faint small">{texts.keys}</p>
    </>
  );
}

function Video({
  sessionId,
  element,
  onTime,
}: {
  sessionId: string;
  element: { current: HTMLVideoElement | null };
  onTime: (atMs: number) => void;
}) {
  const [failed, setFailed] = useState(false);
  return (
    <>
      <video
        ref={element}
        controls
        muted
        playsInline
        preload="metadata"
        aria-label={texts.video}
        src={`sessions/${sessionId}/recording?format=${format()}`}
        onTimeUpdate={(event) => onTime(event.currentTarget.currentTime * 1000 + rounding)}
        onError={() => setFailed(true)}
      />
      {failed && <Notice tone="bad">{texts.videoFailed}</Notice>}
    </>
  );
}
