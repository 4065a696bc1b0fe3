import { Link } from "wouter-preact";
import { Table, Time, formatDuration, type Column, type Sort } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/sessions";
import { nameOf } from "./session-actions";
import { BrowserBadges, SessionButtons, durationOf, type SessionActions } from "./session-card";
import { RecordingButtons } from "./session-recording";
import { HandoverBadge, HandoverReason } from "./session-handover";
import { SessionStatus, endOf } from "./session-status";

type Session = Schema<"BrowserSession">;

function columnsOf(actions: SessionActions): Column<Session>[] {
  return [
    {
      id: "name",
      title: texts.columns.name,
      look: "title",
      cell: (s) => (
        <>
          <Link href={actions.linkTo(s)} class="truncate">
            {nameOf(s)}
          </Link>
          <HandoverReason session={s} />
        </>
      ),
    },
    {
      id: "status",
      title: texts.columns.status,
      look: "fit corner",
      cell: (s) => (
        <span class="row session-badges">
          <SessionStatus session={s} />
          <HandoverBadge session={s} />
        </span>
      ),
    },
    {
      id: "browser",
      title: texts.columns.browser,
      cell: (s) => <BrowserBadges session={s} />,
    },
    {
      id: "startedAt",
      title: texts.columns.started,
      sortable: true,
      cell: (s) => <Time at={s.startedAt} />,
    },
    {
      id: "endedAt",
      title: texts.columns.ended,
      sortable: true,
      cell: (s) => <Ended session={s} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit",
      cell: (s) =>
        s.status === "running" ? (
          <SessionButtons session={s} {...actions} />
        ) : (
          <RecordingButtons session={s} onOpen={actions.onOpen} />
        ),
    },
  ];
}

function Ended({ session }: { session: Session }) {
  if (!session.endedAt) return <span class="faint">–</span>;
  return (
    <span>
      {endOf(session)} <Time at={session.endedAt} />{" "}
      <span class="faint">
        · {texts.ran} {formatDuration(durationOf(session))}
      </span>
    </span>
  );
}

/** The sessions as a list. */
export function SessionTable({
  items,
  sort,
  onSort,
  openId,
  ...actions
}: {
  items: Session[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  openId?: string;
} & SessionActions) {
  return (
    <Table
      label={texts.table}
      columns={columnsOf(actions)}
      items={items}
      keyOf={(s) => s.id}
      sort={sort}
      onSort={onSort}
      onOpen={actions.onDetails}
      openKey={openId}
    />
  );
}
