import { Badge, Button, Notice, Time } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";
import { nameOf } from "./session-actions";

type Session = Schema<"BrowserSession">;

/** Marks a session that waits for a person. */
export function HandoverBadge({ session }: { session: Session }) {
  if (!session.handover) return null;
  return (
    <Badge tone="wait" dot>
      {texts.needsPerson}
    </Badge>
  );
}

/** What a person is to do, as the client wrote it. */
export function HandoverReason({ session }: { session: Session }) {
  if (!session.handover) return null;
  return (
    <p class="small handover-reason" dir="auto">
      {session.handover.reason}
    </p>
  );
}

/** Asks for a person, with the reason and the way to the live view. */
export function HandoverNotice({ session, onOpen }: { session: Session; onOpen: () => void }) {
  if (!session.handover) return null;
  return (
    <Notice tone="wait" title={texts.needsPerson}>
      <div class="stack tight">
        <HandoverReason session={session} />
        <p class="faint small">
          {texts.timesOut} <Time at={session.handover.until} />
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
