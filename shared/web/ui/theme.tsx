import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";

const storageKey = "svc-theme";

function stored(): Theme {
  const value = localStorage.getItem(storageKey);
  return value === "light" || value === "dark" ? value : "system";
}

/** Applies the stored theme. Call it before the first render. */
export function applyTheme(theme: Theme = stored()): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

const listeners = new Set<(theme: Theme) => void>();

function change(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(storageKey);
  else localStorage.setItem(storageKey, theme);
  applyTheme(theme);
  for (const listener of listeners) listener(theme);
}

/** The theme of this browser, and a function that changes it for all parts of the page. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(stored);
  useEffect(() => {
    listeners.add(setTheme);
    return () => void listeners.delete(setTheme);
  }, []);
  return [theme, change];
}
