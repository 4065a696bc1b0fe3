import { useEffect, useRef, useState } from "preact/hooks";

/** The text of a filter field. It reports the trimmed text 250 ms after the last key. */
export function useDelayedText(value: string, onChange: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(value);
  const reported = useRef(value);
  const report = useRef(onChange);
  report.current = onChange;
  useEffect(() => {
    // The own report comes back as the value; what was typed since then stays.
    if (value === reported.current) return;
    reported.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    const trimmed = text.trim();
    if (trimmed === reported.current) return;
    const timer = setTimeout(() => {
      reported.current = trimmed;
      report.current(trimmed);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return [text, setText];
}

/** A search field that reports its text shortly after the last key. The shortcut `/` focuses the first on a page. */
export function SearchField({
  label,
  value,
  onSearch,
}: {
  label: string;
  value: string;
  onSearch: (text: string) => void;
}) {
  const [text, setText] = useDelayedText(value, onSearch);
  return (
    <div class="search">
      <input
        type="search"
        class="input"
        data-search
        aria-label={label}
        placeholder={label}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </div>
  );
}

/** Focuses the search field of the page. */
export function focusSearch(): void {
  document.querySelector<HTMLElement>("[data-search]")?.focus();
}
