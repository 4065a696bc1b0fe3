import "./sparkline.css";

const width = 240;
const height = 44;

/** A small chart of the last values, without axes. `top` is the value at the upper edge. */
export function Sparkline({ label, values, top }: { label: string; values: number[]; top: number }) {
  const step = width / Math.max(1, values.length - 1);
  const y = (value: number) => height - 2 - (Math.min(value, top) / top) * (height - 4);
  const line = values.map((value, i) => `${i === 0 ? "M" : "L"}${i * step} ${y(value)}`).join("");
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {values.length > 1 && (
        <>
          <path class="chart-area" d={`${line}V${height}H0Z`} />
          <path class="chart-line" d={line} />
        </>
      )}
    </svg>
  );
}
