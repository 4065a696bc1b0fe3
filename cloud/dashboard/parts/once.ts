import { useRef } from "preact/hooks";

/** Returns a random key for the header `Idempotency-Key`. It also works without a secure context. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * Returns a function that gives the `Idempotency-Key` of a request. It stays the same while the body does, so that a
 * second try after a lost response does not make the change twice.
 */
export function useIdempotencyKey(): (body: unknown) => string {
  const last = useRef<{ body: string; key: string }>();
  return (body) => {
    const text = JSON.stringify(body);
    if (last.current?.body !== text) last.current = { body: text, key: randomKey() };
    return last.current.key;
  };
}
