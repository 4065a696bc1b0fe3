import { useEffect, useRef, useState } from "preact/hooks";
import { formatTime } from "./time";

interface ChartPoint {
  at: string;
  value: number;
  /** A ceiling at this time; null means there is none. */
  limit?: number | null;
  /** Events at this time, drawn as bars in a lane of their own. */
  events?: number;
}

interface ChartProps {
  label: string;
  points: ChartPoint[];
  valueLabel: string;
  eventLabel: string;
  limitLabel?: string;
}

const margin = { left: 34, right: 10, top: 10, bottom: 22 };
const plotHeight = 150;
/** The lane of the events has its own scale, so that many events do not flatten the line. */
const lane = { gap: 18, height: 26 };

/** A step chart over time with an optional limit line and event bars. The same data follows as a hidden table. */
export function StepChart({ label, points, valueLabel, eventLabel, limitLabel = "limit" }: ChartProps) {
  const [hover, setHover] = useState<number>();
  const [box, width] = useWidth();
  const shape = shapeOf(points, width);
  const shown = hover === undefined ? undefined : points[hover];
  const limited = points.some((p) => typeof p.limit === "number");
  return (
    <figure class="chart" ref={box}>
      <div class="row apart chart-head">
        <span class="row chart-legend" aria-hidden="true">
          <span class="chart-key value">{valueLabel}</span>
          {limited && <span class="chart-key limit">{limitLabel}</span>}
          <span class="chart-key events">{eventLabel}</span>
        </span>
        <figcaption class="faint small numeric">
          {shown ? describe(shown, valueLabel, eventLabel, limitLabel) : label}
        </figcaption>
      </div>
      <svg
        width={width}
        height={shape.height}
        viewBox={`0 0 ${width} ${shape.height}`}
        role="img"
        aria-label={label}
        onPointerMove={(event) => {
          const { left } = event.currentTarget.getBoundingClientRect();
          const at = Math.floor((event.clientX - left - margin.left) / shape.step);
          setHover(at >= 0 && at < points.length ? at : undefined);
        }}
        onPointerLeave={() => setHover(undefined)}
      >
        <Axes shape={shape} points={points} width={width} />
        <path class="chart-area" d={shape.area} />
        <path class="chart-line" d={shape.value} />
        <path class="chart-limit" d={shape.limit} />
        <EventBars shape={shape} points={points} width={width} />
        {hover !== undefined && (
          <rect
            class="chart-hover"
            x={shape.x(hover)}
            width={shape.step}
            y={margin.top}
            height={shape.height - margin.top - margin.bottom}
          />
        )}
      </svg>
      <DataTable {...{ label, points, valueLabel, eventLabel, limitLabel }} />
    </figure>
  );
}

/** The width of the figure, so that texts keep their size on each screen. */
function useWidth() {
  const ref = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(720);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setWidth(Math.max(200, Math.floor(element.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}

type Shape = ReturnType<typeof shapeOf>;

/** The scales and paths of the chart. */
function shapeOf(points: ChartPoint[], width: number) {
  const top = niceMaximum(Math.max(1, ...points.map((p) => Math.max(p.value, p.limit ?? 0))));
  const most = Math.max(0, ...points.map((p) => p.events ?? 0));
  const bottom = margin.top + plotHeight;
  const step = (width - margin.left - margin.right) / Math.max(1, points.length);
  const x = (i: number) => margin.left + i * step;
  const y = (v: number) => bottom - (v / top) * plotHeight;
  const line = (of: (p: ChartPoint) => number | null | undefined) => {
    let path = "";
    let open = false;
    points.forEach((p, i) => {
      const value = of(p);
      const known = value !== null && value !== undefined;
      if (known) path += `${open ? "L" : "M"}${x(i)} ${y(value)}H${x(i + 1)}`;
      open = known;
    });
    return path;
  };
  const value = line((p) => p.value);
  const laneBottom = bottom + (most ? lane.gap + lane.height : 0);
  return {
    top,
    most,
    bottom,
    laneBottom,
    height: laneBottom + margin.bottom,
    step,
    x,
    y,
    value,
    limit: line((p) => p.limit),
    area: value && `${value}V${bottom}H${margin.left}Z`,
  };
}

/** The horizontal lines with their values, and the times at full hours. */
function Axes({ shape, points, width }: { shape: Shape; points: ChartPoint[]; width: number }) {
  const values = [0, shape.top / 2, shape.top].filter(Number.isInteger);
  return (
    <>
      {values.map((v) => (
        <g key={v}>
          <line class="chart-grid" x1={margin.left} x2={width - margin.right} y1={shape.y(v)} y2={shape.y(v)} />
          <text class="chart-text" x={margin.left - 6} y={shape.y(v) + 4} text-anchor="end">
            {v}
          </text>
        </g>
      ))}
      {marksOf(points, width).map(({ i, text }) => (
        <g key={i}>
          <line class="chart-grid" x1={shape.x(i)} x2={shape.x(i)} y1={shape.laneBottom} y2={shape.laneBottom + 4} />
          <text class="chart-text" x={shape.x(i)} y={shape.height - 5} text-anchor="middle">
            {text}
          </text>
        </g>
      ))}
    </>
  );
}

/** The points to label: full hours of the reader's zone, as many as fit. */
function marksOf(points: ChartPoint[], width: number): { i: number; text: string }[] {
  const hours = points.flatMap(({ at }, i) => {
    const time = new Date(at);
    return time.getMinutes() === 0 && time.getSeconds() === 0 ? [{ i, time }] : [];
  });
  const fit = Math.max(2, Math.floor((width - margin.left) / 64));
  const every = [1, 2, 3, 4, 6, 12, 24].find((n) => hours.length / n <= fit) ?? 24;
  const shown =
    hours.length >= 2
      ? hours.filter(({ time }) => time.getHours() % every === 0)
      : points
          .map(({ at }, i) => ({ i, time: new Date(at) }))
          .filter(({ i }) => i % Math.max(1, Math.ceil(points.length / fit)) === 0);
  // A label at the very edge would be cut.
  return shown
    .filter(({ i }) => i > 0 && i < points.length - 1)
    .map(({ i, time }) => ({
      i,
      text: time.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
    }));
}

function EventBars({ shape, points, width }: { shape: Shape; points: ChartPoint[]; width: number }) {
  const { most, laneBottom, step, x } = shape;
  if (!most) return null;
  return (
    <>
      <line class="chart-grid" x1={margin.left} x2={width - margin.right} y1={laneBottom} y2={laneBottom} />
      <text class="chart-text" x={margin.left - 6} y={laneBottom - lane.height + 9} text-anchor="end">
        {most}
      </text>
      {points.map((p, i) => {
        if (!p.events) return null;
        const height = Math.max(3, (p.events / most) * lane.height);
        return (
          <rect
            key={i}
            class="chart-events"
            x={x(i) + 0.5}
            width={Math.max(2, step - 1)}
            y={laneBottom - height}
            height={height}
          />
        );
      })}
    </>
  );
}

function describe(point: ChartPoint, valueLabel: string, eventLabel: string, limitLabel: string): string {
  const parts = [`${formatTime(point.at)}: ${point.value} ${valueLabel}`];
  if (typeof point.limit === "number") parts.push(`${limitLabel} ${point.limit}`);
  if (point.events) parts.push(`${point.events} ${eventLabel}`);
  return parts.join(", ");
}

/** The data for screen readers: the points at which something happened. */
function DataTable({ label, points, valueLabel, eventLabel, limitLabel }: Required<ChartProps>) {
  const rows = points.filter((p) => p.value || p.events);
  return (
    <div class="visually-hidden">
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">{valueLabel}</th>
            <th scope="col">{limitLabel}</th>
            <th scope="col">{eventLabel}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((p) => (
            <tr key={p.at}>
              <td>{formatTime(p.at)}</td>
              <td>{p.value}</td>
              <td>{p.limit ?? "none"}</td>
              <td>{p.events ?? 0}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The next of 1, 2, 4, 6, 10, 20 ... that is not below the value. */
function niceMaximum(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 10].map((f) => f * power).find((v) => v >= value) ?? value;
}
