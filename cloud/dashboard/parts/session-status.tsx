import { Badge, type Tone } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";

type Session = Pick<Schema<"Session">, "status" | "endReason">;

/** End reasons that an operator should look at. */
const problems: Record<string, Tone> = {
  crash: "bad",
  unresponsive: "bad",
  oom: "bad",
  license: "bad",
  unknown: "wait",
  drain: "wait",
};

/** Whether a session runs, or why it ended. */
export function SessionBadge({ session }: { session: Session }) {
  if (session.status === "running")
    return (
      <Badge tone="good" dot>
        {texts.statuses.running}
      </Badge>
    );
  const { endReason } = session;
  if (!endReason) return <Badge>{texts.statuses[session.status]}</Badge>;
  return <Badge tone={problems[endReason]}>{texts.endReasons[endReason].title}</Badge>;
}
