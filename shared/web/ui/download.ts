/** Offers data as a file. */
export function download(name: string, data: Blob): void {
  const url = URL.createObjectURL(data);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The download has started by then; the data need not stay in memory.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
