import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/errors";
import { Button } from "./button";
import { Icon, type IconName } from "./icon";
import { formatClock, formatDuration } from "./time";

export type Tone = "good" | "wait" | "bad" | "accent";

/** A state in one or two words. `dot` adds a mark, for states that change. */
export function Badge({ tone, dot, children }: { tone?: Tone; dot?: boolean; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone ?? ""}`}>
      {dot && <span class="dot" />}
      {children}
    </span>
  );
}

const noticeIcons: Record<Tone, IconName> = { good: "check", wait: "warning", bad: "warning", accent: "info" };

/** A message that stays on the page. */
export function Notice({
  tone = "accent",
  title,
  children,
  action,
}: {
  tone?: Tone;
  title?: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <Icon name={noticeIcons[tone]} />
      <div class="grow stack tight">
        {title && <p class="strong">{title}</p>}
        {children && <div>{children}</div>}
      </div>
      {action}
    </div>
  );
}

/** States when the request may be sent again. Only the time is announced, not each second of the countdown. */
function RetryTime({ seconds }: { seconds: number }) {
  const [until] = useState(() => Date.now() + seconds * 1000);
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const timer = setInterval(() => setLeft(Math.max(0, Math.ceil((until - Date.now()) / 1000))), 1000);
    return () => clearInterval(timer);
  }, []);
  if (left === 0) return <p>You can try again now.</p>;
  return (
    <p>
      You can try again at {formatClock(until)}
      <span class="numeric" aria-hidden="true">
        {" "}
        (in {formatDuration(left)})
      </span>
      .
    </p>
  );
}

/** States why something failed, with the request id for support, and offers to try again. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const failure = error instanceof ApiError ? error : undefined;
  return (
    <Notice
      tone="bad"
      title={failure?.message ?? "Something went wrong."}
      action={
        onRetry && (
          <Button size="small" icon="refresh" onClick={onRetry}>
            Try again
          </Button>
        )
      }
    >
      {failure?.details.some((d) => d.message && d.message !== failure.message) && (
        <ul class="small">
          {failure.details.map((d) => (
            <li key={d.field + d.code}>
              <code>{d.field}</code>: {d.message}
            </li>
          ))}
        </ul>
      )}
      {failure?.retryAfter && <RetryTime key={failure.requestId} seconds={failure.retryAfter} />}
      {failure?.requestId && (
        <p class="faint small">
          Request id: <code>{failure.requestId}</code>
        </p>
      )}
    </Notice>
  );
}

/** What a list shows if it has no items. */
export function Empty({
  icon,
  title,
  children,
  action,
}: {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Placeholder lines while data loads. */
export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div class="stack tight" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} class="skeleton" style={{ width: `${90 - ((i * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

interface Query<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  refetch: () => unknown;
}

/** Shows the data of a query, or that it loads, or why it failed. Old data stays visible when a refresh fails. */
export function Loaded<T>({
  query,
  lines,
  children,
}: {
  query: Query<T>;
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error ? <ErrorNotice error={query.error} onRetry={() => void query.refetch()} /> : null}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  return <Loading lines={lines} />;
}

/** A number with its label, for example a usage. */
export function Stat({
  label,
  value,
  of,
  children,
}: {
  label: string;
  value: ComponentChildren;
  of?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="stat">
      <span class="faint">{label}</span>
      <span class="value">
        {value}
        {of !== undefined && <small> / {of}</small>}
      </span>
      {children}
    </div>
  );
}

/**
 * A bar that shows how much of a limit is used. A null limit is unlimited. `advisory` is for a limit at which nothing is
 * refused.
 */
export function Meter({
  label,
  value,
  limit,
  advisory = false,
}: {
  label: string;
  value: number;
  limit: number | null;
  advisory?: boolean;
}) {
  const share = limit === null ? 0 : limit === 0 ? 1 : Math.min(1, value / limit);
  const tone = advisory ? "" : share >= 1 ? "bad" : share >= 0.8 ? "wait" : "";
  return (
    <div
      class={`meter ${tone}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuenow={value}
      aria-valuemax={limit ?? Math.max(value, 1)}
      aria-valuetext={limit === null ? `${value}, unlimited` : `${value} of ${limit}`}
    >
      <span style={{ width: `${share * 100}%` }} />
    </div>
  );
}
