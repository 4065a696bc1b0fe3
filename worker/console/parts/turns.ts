/** How many previews are requested at a time, of all cards together. */
const limit = 2;

let active = 0;
const waiting: (() => void)[] = [];

function next(): void {
  while (active < limit && waiting.length > 0) waiting.shift()!();
}

/** Runs the work when it is its turn. Rejects if the signal aborts before. */
export async function inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  await new Promise<void>((resolve, reject) => {
    const leave = () => {
      waiting.splice(waiting.indexOf(start), 1);
      reject(signal.reason);
    };
    const start = () => {
      signal.removeEventListener("abort", leave);
      active++;
      resolve();
    };
    signal.throwIfAborted();
    signal.addEventListener("abort", leave, { once: true });
    waiting.push(start);
    next();
  });
  try {
    return await work();
  } finally {
    active--;
    next();
  }
}

/** Waits; returns early if the signal aborts. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}
