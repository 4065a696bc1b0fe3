/** The result of one item of a bulk action. */
export interface Outcome<T> {
  item: T;
  state: "done" | "failed" | "skipped";
  error?: unknown;
}

interface Options<T> {
  /** How many items are in work at the same time. */
  concurrency?: number;
  /** Called after each item with all outcomes so far. */
  onProgress?: (outcomes: Outcome<T>[]) => void;
  /** No further item starts once it returns true; those in work are finished. */
  stopped?: () => boolean;
  /** Whether an error ends the run: no further item would succeed. */
  isFinal?: (error: unknown) => boolean;
}

/** Runs an action for all items. Items that did not start before a stop are skipped. */
export async function runAll<T>(
  items: readonly T[],
  action: (item: T) => Promise<unknown>,
  { concurrency = 4, onProgress, stopped = () => false, isFinal = () => false }: Options<T> = {},
): Promise<Outcome<T>[]> {
  const outcomes: Outcome<T>[] = [];
  let next = 0;
  let over = false;
  const work = async () => {
    while (next < items.length && !over && !stopped()) {
      const item = items[next++]!;
      try {
        await action(item);
        outcomes.push({ item, state: "done" });
      } catch (error) {
        over ||= isFinal(error);
        outcomes.push({
          item,
          state: isFinal(error) ? "skipped" : "failed",
          error,
        });
      }
      onProgress?.([...outcomes]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
  for (const item of items.slice(next)) outcomes.push({ item, state: "skipped" });
  return outcomes;
}
