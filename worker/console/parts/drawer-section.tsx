import type { ComponentChildren } from "preact";

/** A part of the details of a session. */
export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="stack tight drawer-section">
      <h3>{title}</h3>
      {children}
    </section>
  );
}
