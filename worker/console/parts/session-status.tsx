import { Badge, type Tone } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";

type Session = Schema<"BrowserSession">;

/** Reasons of ends that no client requested. */
const bad = new Set<Session["endReason"]>(["crash", "unresponsive", "oom", "license", "unknown"]);

function toneOf(session: Session): Tone | undefined {
  if (session.status === "running") return "good";
  return bad.has(session.endReason) ? "bad" : undefined;
}

/** The status of a session. A frozen browser runs, too. */
export function SessionStatus({ session }: { session: Session }) {
  return (
    <>
      <Badge tone={toneOf(session)} dot>
        {texts.status(session)}
      </Badge>
      {session.frozen && (
        <span title={texts.frozenHint}>
          <Badge>{texts.frozen}</Badge>
        </span>
      )}
    </>
  );
}

/** Why a session ended, with the exit code if the browser has one. */
export function endOf(session: Session): string {
  const code = session.exitCode === null ? "" : `, ${texts.exitCode(session.exitCode)}`;
  return texts.endReason(session.endReason) + code;
}
