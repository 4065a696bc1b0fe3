import { Badge, Button, Notice, Time } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";
import { nameOf } from "./session-actions";

type Session = Schema<"BrowserSession">;

/** What a person is to do: as the client wrote it, or the documents that a rule asks about. */
const reasonOf = ({ handover, questions }: Session) =>
  handover?.reason ?? questions?.map(({ url }) => `${texts.asksFor} ${url}`).join("\n");

/** Marks a session that waits for a person. */
export function HandoverBadge({ session }: { session: Session }) {
  if (!reasonOf(session)) return null;
  return (
    <Badge tone="wait" dot>
      {texts.needsPerson}
    </Badge>
  );
}

/** Shows what a person is to do. */
export function HandoverReason({ session }: { session: Session }) {
  const reason = reasonOf(session);
  if (!reason) return null;
  return (
    <p class="small handover-reason" dir="auto">
      {reason}
    </p>
  );
}

/** Asks for a person, with the reason and the way to the live view. */
export function HandoverNotice({ session, onOpen }: { session: Session; onOpen: () => void }) {
  const until = session.handover?.until ?? session.questions?.[0]?.until;
  if (!until) return null;
  return (
    <Notice tone="wait" title={texts.needsPerson}>
      <div class="stack tight">
        <HandoverReason session={session} />
        <p class="faint small">
          {texts.timesOut} <Time at={until} />
        </p>
        <div class="row">
          <Button
            size="small"
            icon="eye"
            title={texts.newTab}
            aria-label={`${texts.help}: ${nameOf(session)}`}
            onClick={onOpen}
          >
            {texts.help}
          </Button>
        </div>
      </div>
    </Notice>
  );
}
