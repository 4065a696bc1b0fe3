import type { ComponentChildren } from "preact";
import { Meter, formatBytes } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { liveSamples } from "../live";
import { texts } from "../texts/machine";
import { Sparkline } from "./sparkline";

/** The load of the machine with its history since this page was opened. */
export function LoadPanels({ live, status }: { live: Schema<"FleetLive">; status: Schema<"FleetStatus"> }) {
  const samples = liveSamples();
  const { pressure, host } = status;
  const limit = live.maxSessions;
  const sessions = samples.map((s) => s.sessions);
  return (
    <div class="load">
      <Load title={texts.processor} value={texts.percent(live.cpuPercent)} note={texts.load(pressure.load1, host.cpus)}>
        <History title={texts.processor} values={samples.map((s) => s.cpu)} top={100} format={texts.percent} />
      </Load>
      <Load
        title={texts.memory}
        value={texts.percent(live.memoryPercent)}
        note={texts.usedOf(formatBytes(live.memoryUsedBytes), formatBytes(pressure.memoryLimitBytes))}
      >
        <History title={texts.memory} values={samples.map((s) => s.memory)} top={100} format={texts.percent} />
      </Load>
      <Load
        title={texts.sessions}
        value={live.activeSessions}
        of={limit}
        note={[
          limit === null ? texts.noLimit : texts.limit(limit),
          ...(live.launching > 0 ? [texts.starting(live.launching)] : []),
        ].join(", ")}
      >
        <History title={texts.sessions} values={sessions} top={limit ?? Math.max(4, ...sessions)} format={String} />
      </Load>
      <Load title={texts.disk} value={formatBytes(pressure.diskFreeBytes)} />
    </div>
  );
}

function Load({
  title,
  value,
  of,
  note,
  children,
}: {
  title: string;
  value: ComponentChildren;
  of?: number | null;
  note?: string;
  children?: ComponentChildren;
}) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      <div class="stat">
        <span class="value">
          {value}
          {typeof of === "number" && <small> / {of}</small>}
        </span>
      </div>
      {typeof of === "number" && <Meter label={title} value={Number(value)} limit={of} />}
      {children}
      {note && <p class="faint small numeric">{note}</p>}
    </section>
  );
}

function History({
  title,
  values,
  top,
  format,
}: {
  title: string;
  values: number[];
  top: number;
  format: (value: number) => string;
}) {
  const low = format(Math.min(...values));
  const high = format(Math.max(...values));
  return (
    <Sparkline
      label={values.length > 1 ? texts.history(title, low, high) : texts.collecting}
      values={values}
      top={top}
    />
  );
}
