import { useEffect, useState } from "preact/hooks";

/** A search field that reports its text 250 ms after the last key. The shortcut `/` focuses the first on a page. */
export function SearchField({
  label,
  value,
  onSearch,
}: {
  label: string;
  value: string;
  onSearch: (text: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onSearch(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
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
