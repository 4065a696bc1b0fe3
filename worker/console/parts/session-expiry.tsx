import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Button, ErrorNotice, Notice } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { nameOf } from "./session-actions";

type Session = Schema<"BrowserSession">;

/** When the notice appears, in seconds before the end. */
const noticeSeconds = 60;

/** What an extension adds to a limit that counts from the start. */
const moreSeconds = 600;

/** Returns the update that lets the session run longer. A new idle timeout restarts the idle time. */
function extensionOf(session: Session): Schema<"UpdateBrowserSessionRequest"> {
  switch (session.expiresReason) {
    case "max_duration":
      return { maxDurationSeconds: (session.maxDurationSeconds ?? 0) + moreSeconds };
    case "never_connected":
      return { connectTimeoutSeconds: (session.connectTimeoutSeconds ?? 0) + moreSeconds };
    default:
      return { idleTimeoutSeconds: session.idleTimeoutSeconds ?? 0 };
  }
}

/** Counts down the last minute before the worker ends the session, and offers to extend it. */
export function ExpiryNotice({ session }: { session: Session }) {
  const queries = useQueryClient();
  const end = session.expiresAt ? Date.parse(session.expiresAt) : undefined;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (end === undefined) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [end]);
  const extending = useMutation({
    mutationFn: () => {
      const path = { sessionId: session.id };
      return send(api.PATCH("/sessions/{sessionId}", { params: { path }, body: extensionOf(session) }));
    },
    onSuccess: (extended) => {
      queries.setQueryData(["session", session.id], extended);
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  if (end === undefined || !session.expiresReason) return null;
  const left = Math.max(Math.round((end - now) / 1000), 0);
  if (left > noticeSeconds) return null;
  const label = session.expiresReason === "idle" ? texts.keepRunning : texts.extend;
  return (
    <Notice tone="wait" title={texts.endsIn(left, session.expiresReason)}>
      <div class="row">
        <Button
          size="small"
          aria-label={`${label}: ${nameOf(session)}`}
          disabled={extending.isPending}
          onClick={() => extending.mutate()}
        >
          {label}
        </Button>
      </div>
      {extending.error ? <ErrorNotice error={extending.error} /> : null}
    </Notice>
  );
}
