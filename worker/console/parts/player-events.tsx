import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../../shared/web/ui";
import { texts } from "../texts/player";

/** An event of a recording, as a line of its events. */
export interface RecordedEvent {
  atMs: number;
  kind: string;
  level?: string;
  text?: string;
  url?: string;
  role?: string;
  name?: string;
}

/** How many events the list shows at first, and more at a time. */
const page = 500;

/** Returns the events of JSON lines. The last line of an interrupted recording can be incomplete. */
export function parseEvents(lines: string): RecordedEvent[] {
  return lines.split("\n").flatMap((line) => {
    try {
      return line ? [JSON.parse(line) as RecordedEvent] : [];
    } catch {
      return [];
    }
  });
}

/** A time in the video, for example "1:04.2". */
export function formatPosition(milliseconds: number): string {
  const tenths = Math.floor(milliseconds / 100);
  const seconds = ((tenths % 600) / 10).toFixed(1).padStart(4, "0");
  return `${Math.floor(tenths / 600)}:${seconds}`;
}

/** Returns the index of the last event at or before a time; -1 before the first. */
function indexAt(events: RecordedEvent[], atMs: number): number {
  let found = -1;
  for (let i = 0; i < events.length && events[i]!.atMs <= atMs; i++) found = i;
  return found;
}

/** The choice of the kinds of events. */
function KindFilter({
  kinds,
  hidden,
  onToggle,
}: {
  kinds: Map<string, number>;
  hidden: Set<string>;
  onToggle: (kind: string) => void;
}) {
  return (
    <fieldset class="player-kinds">
      <legend class="visually-hidden">{texts.filter}</legend>
      {[...kinds].map(([kind, count]) => (
        <label key={kind}>
          <input type="checkbox" checked={!hidden.has(kind)} onChange={() => onToggle(kind)} />
          {texts.kind(kind)} <span class="faint numeric">{count}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** The kinds of events in the order in which they first occur, with their numbers. */
function countKinds(events: RecordedEvent[]): Map<string, number> {
  const kinds = new Map<string, number>();
  for (const { kind } of events) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  return kinds;
}

/** The events, with the current one highlighted. A click or Enter goes to the time of an event. */
export function PlayerEvents({
  events,
  atMs,
  onSeek,
}: {
  events: RecordedEvent[];
  atMs: number;
  onSeek: (atMs: number) => void;
}) {
  const [hidden, setHidden] = useState(new Set<string>());
  const [limit, setLimit] = useState(page);
  const toggle = (kind: string) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setHidden(next);
  };
  const matching = events.filter((event) => !hidden.has(event.kind));
  const shown = matching.slice(0, limit);
  return (
    <>
      <KindFilter kinds={countKinds(events)} hidden={hidden} onToggle={toggle} />
      {shown.length === 0 && <p class="faint">{texts.noMatch}</p>}
      <EventList events={shown} current={indexAt(shown, atMs)} onSeek={onSeek} />
      {matching.length > limit && (
        <Button size="small" onClick={() => setLimit(limit + page)}>
          {texts.more(Math.min(page, matching.length - limit))}
        </Button>
      )}
    </>
  );
}

function EventList({
  events,
  current,
  onSeek,
}: {
  events: RecordedEvent[];
  current: number;
  onSeek: (atMs: number) => void;
}) {
  const list = useRef<HTMLOListElement>(null);
  const buttons = () => [...(list.current?.querySelectorAll("button") ?? [])];
  useEffect(() => {
    const box = list.current;
    const row = box?.children[current] as HTMLElement | undefined;
    if (!box || !row || box.contains(document.activeElement)) return; // the list must not move while it is used
    box.scrollTop = row.offsetTop - box.offsetTop - box.clientHeight / 3;
  }, [current]);
  const move = (event: KeyboardEvent) => {
    const all = buttons();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    all[to]?.focus();
  };
  const reachable = Math.max(current, 0); // by Tab; the arrow keys reach the others
  return (
    <ol ref={list} class="player-list" onKeyDown={move}>
      {events.map((event, i) => (
        <li key={i} aria-current={i === current ? "true" : undefined}>
          <button
            type="button"
            class={event.level && `level-${event.level}`}
            tabIndex={i === reachable ? 0 : -1}
            onClick={() => onSeek(event.atMs)}
          >
            <span class="numeric faint">{formatPosition(event.atMs)}</span>
            <span class="strong">{texts.kind(event.kind)}</span>
            <span class="player-detail">
              {[event.role, event.name, event.text, event.url].filter(Boolean).join(" · ")}
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}
