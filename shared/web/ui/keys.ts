import { useEffect, useRef } from "preact/hooks";

/** A keyboard shortcut: a key such as `/`, or two keys one after the other such as `g s`. */
type Shortcuts = Record<string, () => void>;

/** Whether the focus is in a control that takes text. */
function typing(event: KeyboardEvent): boolean {
  const target = event.target as Element;
  return target.closest("input:not([type=radio], [type=checkbox]), select, textarea, [contenteditable]") !== null;
}

/** Handles shortcuts while no text is typed and no dialog is open. The second key must follow within a second. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    let first = "";
    let at = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event) || document.querySelector("dialog[open]"))
        return;
      const keys = first && event.timeStamp - at < 1000 ? `${first} ${event.key}` : event.key;
      const action = latest.current[keys] ?? latest.current[event.key];
      first = event.key;
      at = event.timeStamp;
      if (action) {
        event.preventDefault();
        first = "";
        action();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}
