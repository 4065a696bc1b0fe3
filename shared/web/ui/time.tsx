import { useEffect, useState } from "preact/hooks";

const absolute = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat("en", { timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** The date and time in the reader's time zone. */
export const formatTime = (iso: string): string => absolute.format(new Date(iso));

/** The date in the reader's time zone. */
export const formatDate = (iso: string): string => day.format(new Date(iso));

/** The time of day in the reader's time zone. */
export const formatClock = (time: number): string => clock.format(time);

/** The time relative to now, for example "5 min. ago". */
function formatRelative(iso: string, now = Date.now()): string {
  const seconds = Math.round((new Date(iso).getTime() - now) / 1000);
  const [unit, size] = steps.find(([, s]) => Math.abs(seconds) >= s) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** The time as the value of a `datetime-local` control, in the reader's time zone; empty for an invalid time. */
export function toLocalInput(iso: string | null | undefined): string {
  const at = new Date(iso ?? "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A duration, for example "1 h 05 min" or "42 s". */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** A time relative to now that updates itself; the tooltip has the exact time. */
export function Time({ at, never = "Never" }: { at: string | null | undefined; never?: string }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return <span class="faint">{never}</span>;
  return (
    <time dateTime={at} title={formatTime(at)} class="nowrap">
      {formatRelative(at)}
    </time>
  );
}
