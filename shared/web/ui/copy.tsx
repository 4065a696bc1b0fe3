import { useEffect, useState } from "preact/hooks";
import { Button } from "./button";

/** Copies the text. Also works on pages without a secure context, where there is no clipboard API. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  (document.querySelector("dialog[open]:last-of-type") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("copy failed");
}

/** A button that copies a text. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  useEffect(() => {
    if (state === "ready") return;
    const timer = setTimeout(() => setState("ready"), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () =>
    copyText(text).then(
      () => setState("copied"),
      () => setState("failed"),
    );
  const shown = { ready: label, copied: "Copied", failed: "Copy failed" }[state];
  return (
    <>
      <Button
        size="small"
        icon={state === "copied" ? "check" : "copy"}
        aria-label={shown}
        onClick={() => void copy()}
      />
      <span class="visually-hidden" role="status">
        {state === "ready" ? "" : shown}
      </span>
    </>
  );
}

/** A command or a file, with a button that copies it. */
export function CodeBlock({ text, shown = text, label }: { text: string; shown?: string; label: string }) {
  return (
    <div class="code-block">
      <pre tabIndex={0} role="region" aria-label={label}>
        <code>{shown}</code>
      </pre>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  );
}
