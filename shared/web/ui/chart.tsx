import { useState } from "preact/hooks";
import { formatTime } from "./time";

export interface ChartPoint {
  at: string;
  value: number;
  /** A ceiling at this time; null means there is none. */
  limit?: number | null;
  /** Events at this time, drawn as bars. */
  events?: number;
}

const width = 720;
const height = 180;
const margin = { left: 34, right: 8, top: 8, bottom: 22 };

/** A step chart over time with an optional limit line and event bars. The same data follows as a hidden table. */
export function StepChart({
  label,
  points,
  valueLabel,
  eventLabel,
}: {
  label: string;
  points: ChartPoint[];
  valueLabel: string;
  eventLabel: string;
}) {
  const [hover, setHover] = useState<number>();
  const top = niceMaximum(Math.max(1, ...points.map((p) => Math.max(p.value, p.events ?? 0, p.limit ?? 0))));
  const step = (width - margin.left - margin.right) / Math.max(1, points.length);
  const x = (i: number) => margin.left + i * step;
  const y = (v: number) => height - margin.bottom - (v / top) * (height - margin.top - margin.bottom);
  const line = (of: (p: ChartPoint) => number | null | undefined) => {
    let path = "";
    points.forEach((p, i) => {
      const value = of(p);
      if (value === null || value === undefined) return;
      path += `${path === "" ? "M" : "L"}${x(i)} ${y(value)}H${x(i + 1)}`;
    });
    return path;
  };
  const area = points.length ? `${line((p) => p.value)}V${y(0)}H${x(0)}Z` : "";
  const shown = hover === undefined ? undefined : points[hover];
  const ticks = [0, top / 2, top].filter(Number.isInteger);
  const marks = points
    .map((p, i) => ({ i, at: new Date(p.at) }))
    .filter((_, i) => points.length < 8 || i % Math.ceil(points.length / 8) === 0);
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={label}
        onPointerMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const at = Math.floor((((event.clientX - box.left) / box.width) * width - margin.left) / step);
          setHover(at >= 0 && at < points.length ? at : undefined);
        }}
        onPointerLeave={() => setHover(undefined)}
      >
        {ticks.map((t) => (
          <g key={t}>
            <line class="chart-grid" x1={margin.left} x2={width - margin.right} y1={y(t)} y2={y(t)} />
            <text class="chart-text" x={margin.left - 6} y={y(t) + 4} text-anchor="end">
              {t}
            </text>
          </g>
        ))}
        {marks.map(({ i, at }) => (
          <text key={i} class="chart-text" x={x(i)} y={height - 6}>
            {at.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false })}
          </text>
        ))}
        <path class="chart-area" d={area} />
        <path class="chart-line" d={line((p) => p.value)} />
        <path class="chart-limit" d={line((p) => p.limit)} />
        {points.map((p, i) =>
          p.events ? (
            <rect
              key={i}
              class="chart-events"
              x={x(i)}
              width={Math.max(2, step - 1)}
              y={y(p.events)}
              height={y(0) - y(p.events)}
            />
          ) : null,
        )}
        {hover !== undefined && (
          <rect
            class="chart-hover"
            x={x(hover)}
            width={step}
            y={margin.top}
            height={height - margin.top - margin.bottom}
          />
        )}
      </svg>
      <figcaption class="faint small numeric">
        {shown
          ? `${formatTime(shown.at)}: ${shown.value} ${valueLabel}${shown.limit === null || shown.limit === undefined ? "" : `, limit ${shown.limit}`}${shown.events ? `, ${shown.events} ${eventLabel}` : ""}`
          : label}
      </figcaption>
      <table class="visually-hidden">
        <caption>{label}</caption>
        <thead>
          <tr>
            <th>Time</th>
            <th>{valueLabel}</th>
            <th>Limit</th>
            <th>{eventLabel}</th>
          </tr>
        </thead>
        <tbody>
          {points
            .filter((p) => p.value || p.events)
            .map((p) => (
              <tr key={p.at}>
                <td>{formatTime(p.at)}</td>
                <td>{p.value}</td>
                <td>{p.limit ?? "none"}</td>
                <td>{p.events ?? 0}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </figure>
  );
}

/** The next of 2, 5, 10, 20, 50 ... that is not below the value, and even, so that it has a middle. */
function niceMaximum(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [2, 4, 10, 20].map((f) => f * power).find((v) => v >= value) ?? value;
}
