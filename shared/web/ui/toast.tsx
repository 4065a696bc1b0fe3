import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/errors";
import { Button } from "./button";
import { Icon } from "./icon";

interface Message {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const listeners = new Set<(message: Message) => void>();
let nextId = 1;

/** Shows a message for some seconds. */
export function toast(text: string, tone: "good" | "bad" = "good"): void {
  const message = { id: nextId++, tone, text };
  for (const listener of listeners) listener(message);
}

/** Shows the message of an error. */
export function toastError(error: unknown): void {
  toast(error instanceof ApiError ? error.message : "Something went wrong. Try again.", "bad");
}

/** The place of the messages; once in an application. */
export function Toasts() {
  const [messages, setMessages] = useState<Message[]>([]);
  useEffect(() => {
    const timers = new Set<number>();
    const add = (message: Message) => {
      setMessages((now) => [...now.slice(-3), message]);
      const timer = window.setTimeout(
        () => {
          timers.delete(timer);
          setMessages((now) => now.filter((m) => m.id !== message.id));
        },
        message.tone === "bad" ? 12_000 : 5_000,
      );
      timers.add(timer);
    };
    listeners.add(add);
    return () => {
      listeners.delete(add);
      timers.forEach((timer) => clearTimeout(timer));
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.map((m) => (
        <div key={m.id} class={`toast ${m.tone}`}>
          <Icon name={m.tone === "bad" ? "warning" : "check"} />
          <span class="grow">{m.text}</span>
          <Button
            kind="quiet"
            size="small"
            icon="close"
            aria-label="Dismiss"
            onClick={() => setMessages((now) => now.filter((x) => x.id !== m.id))}
          />
        </div>
      ))}
    </div>
  );
}
