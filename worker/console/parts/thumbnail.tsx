import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../../../shared/web/api/errors";
import { Icon } from "../../../shared/web/ui";
import { capturePreview, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { inTurn, pause } from "./turns";
import "./thumbnail.css";

const interval = 4_000;
const longest = 60_000;

/** Whether the tab is visible. */
function useTabVisible(): boolean {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const update = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return visible;
}

/** Whether the element is in view, or nearly. */
function useInView(ref: RefObject<HTMLElement>): boolean {
  const [inView, setInView] = useState(false);
  useEffect(() => {
    if (!ref.current) return;
    const observer = new IntersectionObserver((entries) => setInView(entries.at(-1)!.isIntersecting), {
      rootMargin: "80px",
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return inView;
}

/** How long to wait after that many failures in a row. A busy worker states the time itself. */
function backoff(failures: number, error: unknown): number {
  const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0;
  return Math.min(longest, Math.max(asked, interval * 2 ** failures));
}

function problemOf(error: unknown): string {
  const status = error instanceof ApiError ? error.status : 0;
  if (status === 404) return texts.picture.gone;
  if (status === 409) return texts.picture.noPage;
  if (status === 503) return texts.picture.full;
  if (status === 504) return texts.picture.busy;
  return texts.picture.failed;
}

interface Picture {
  url?: string;
  problem?: string;
  /** Call it when the image has loaded: earlier images are not needed any more. */
  onLoad: () => void;
}

/** The last preview of a browser as a blob URL, refreshed while `live`. */
function usePicture(
  launchId: string,
  { live, width, revision }: { live: boolean; width: number; revision: number },
): Picture {
  const [url, setUrl] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const urls = useRef<string[]>([]);
  const revoke = (keep: number) =>
    urls.current.splice(0, urls.current.length - keep).forEach((old) => URL.revokeObjectURL(old));
  useEffect(() => () => revoke(0), []);
  useEffect(() => {
    if (!live) return;
    const stop = new AbortController();
    const show = (picture: Blob) => {
      const next = URL.createObjectURL(picture);
      urls.current.push(next);
      setUrl(next);
      setProblem(undefined);
    };
    void refresh(launchId, width, stop.signal, show, setProblem);
    return () => stop.abort();
  }, [live, launchId, width, revision]);
  return { url, problem, onLoad: () => revoke(1) };
}

async function refresh(
  launchId: string,
  width: number,
  signal: AbortSignal,
  onPicture: (picture: Blob) => void,
  onProblem: (problem: string) => void,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    let wait = interval;
    try {
      const picture = await inTurn(signal, () => capturePreview(launchId, width, signal));
      if (signal.aborted) return;
      failures = 0;
      onPicture(picture);
    } catch (error) {
      if (signal.aborted) return;
      wait = backoff(++failures, error);
      onProblem(problemOf(error));
    }
    await pause(wait, signal);
  }
}

/** The screen of a browser, refreshed while it is in view and the tab is visible. Another `revision` refreshes it now. */
export function Thumbnail({
  session,
  width,
  paused = false,
  revision = 0,
}: {
  session: Schema<"BrowserSession">;
  width: number;
  paused?: boolean;
  revision?: number;
}) {
  const root = useRef<HTMLDivElement>(null);
  const inView = useInView(root);
  const tabVisible = useTabVisible();
  const running = session.status === "running";
  const live = running && inView && tabVisible && !paused;
  const { url, problem, onLoad } = usePicture(session.launchId, {
    live,
    width,
    revision,
  });
  const words = running
    ? (problem ?? (url ? undefined : paused ? texts.picture.paused : ""))
    : url
      ? texts.picture.last
      : texts.picture.none;
  return (
    <div class={`thumbnail ${running ? "" : "ended"}`} ref={root} aria-busy={live && !url && !problem}>
      {url && <img src={url} alt={texts.picture.of(session.profileName || session.profileId)} onLoad={onLoad} />}
      {words && (
        <span class="words">
          {!url && <Icon name={running ? "eye" : "stop"} />}
          {words}
        </span>
      )}
      {words === "" && <span class="spinner" />}
    </div>
  );
}
