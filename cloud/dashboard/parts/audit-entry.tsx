import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { Button, CopyButton, Icon, Time, formatTime } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/audit";
import { useAllKeys } from "./team";

type Event = Schema<"AuditEvent">;

/** One event in words. It opens to all of its facts. */
export function AuditEntry({ event, onTarget }: { event: Event; onTarget: (id: string) => void }) {
  const [open, setOpen] = useState(false);
  const actor = useActorName(event.actor);
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary class="audit-row">
        <Icon name="right" />
        <span class="grow">
          <span class="strong">{actor}</span> {texts.says(event.action, event.details)}
        </span>
        <span class="faint">
          <Time at={event.createdAt} />
        </span>
      </summary>
      {open && (
        <div class="fold-body">
          <Facts event={event} actor={actor} onTarget={onTarget} />
        </div>
      )}
    </details>
  );
}

function useActorName(actor: Schema<"AuditActor">): string {
  const keys = useAllKeys();
  switch (actor.type) {
    case "user":
      return actor.email ?? texts.unknownUser;
    case "key": {
      const key = keys.data?.find((k) => k.id === actor.id);
      return key ? texts.keyActor(key.name) : texts.unknownKey;
    }
    case "serviceAccount":
      return texts.serviceAccountActor(actor.name ?? "");
    case "operator":
      return texts.operator;
    case "system":
      return texts.system;
  }
}

function Facts({ event, actor, onTarget }: { event: Event; actor: string; onTarget: (id: string) => void }) {
  const t = texts.facts;
  return (
    <dl class="facts">
      <dt>{t.time}</dt>
      <dd>{formatTime(event.createdAt)}</dd>
      <dt>{t.action}</dt>
      <dd>
        <code>{event.action}</code>
      </dd>
      <dt>{t.actor}</dt>
      <dd>
        {actor} {event.actor.id && <code>{event.actor.id}</code>}
      </dd>
      <dt>{t.target}</dt>
      <dd class="row">
        <code>{event.targetId}</code>
        <CopyButton text={event.targetId} label={texts.copyTarget} />
        <Button size="small" icon="filter" onClick={() => onTarget(event.targetId)}>
          {texts.onlyTarget}
        </Button>
      </dd>
      {Object.entries(event.details).map(([name, value]) => (
        <Fragment key={name}>
          <dt>
            <code>{name}</code>
          </dt>
          <dd>{shown(value)}</dd>
        </Fragment>
      ))}
      <dt>{t.address}</dt>
      <dd>{event.clientAddress ?? texts.noRequest}</dd>
      <dt>{t.request}</dt>
      <dd class="row">
        {event.requestId ? (
          <>
            <code>{event.requestId}</code>
            <CopyButton text={event.requestId} label={texts.copyRequest} />
          </>
        ) : (
          texts.noRequest
        )}
      </dd>
    </dl>
  );
}

function shown(value: unknown): string {
  if (value === null) return texts.nothing;
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
