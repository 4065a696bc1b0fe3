const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size, for example "23.5 GiB". */
export function formatBytes(bytes: number): string {
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${value.toFixed(power === 0 || value >= 100 ? 0 : 1)} ${units[power]}`;
}

/** Returns the URL with https:// if the user typed none. */
export function withScheme(url: string): string {
  const text = url.trim();
  return text === "" || /^[a-z][a-z0-9+.-]*:(\/\/|blank)/i.test(text) ? text : `https://${text}`;
}
