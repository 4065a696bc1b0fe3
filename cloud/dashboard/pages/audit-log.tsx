import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { Button, Empty, Loaded, Pagination } from "../../../shared/web/ui";
import { api } from "../api";
import { AuditEntry } from "../parts/audit-entry";
import { AuditFilters, useAuditFilters } from "../parts/audit-filters";
import { useManages } from "../session";
import { texts } from "../texts/audit";
import "../parts/lists.css";
import "./audit-log.css";

/** The changes in the organization, newest first. */
export default function Page() {
  const manages = useManages();
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.intro}</p>
        </div>
      </div>
      {manages ? (
        <Entries />
      ) : (
        <Empty icon="log" title={texts.membersTitle}>
          {texts.membersHint}
        </Empty>
      )}
    </>
  );
}

function Entries() {
  const filters = useAuditFilters();
  const { query, filtered, change, clear } = filters;
  const events = useQuery({
    queryKey: ["audit", query],
    queryFn: () => send(api.GET("/v1/audit-events", { params: { query } })),
  });
  return (
    <section aria-labelledby="audit-list">
      <h2 id="audit-list" class="visually-hidden">
        {texts.list}
      </h2>
      <AuditFilters {...filters} />
      <Loaded query={events} lines={8}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <Empty
              icon="log"
              title={filtered ? texts.noMatch : texts.empty}
              action={filtered && <Button onClick={clear}>{texts.clear}</Button>}
            >
              {filtered ? texts.noMatchHint : texts.emptyHint}
            </Empty>
          ) : (
            <>
              <ul class="fold-list">
                {items.map((event) => (
                  <li key={event.id}>
                    <AuditEntry event={event} onTarget={(target) => change({ target })} />
                  </li>
                ))}
              </ul>
              <Pagination info={pagination} onPage={(page) => change({ page: String(page) })} />
            </>
          )
        }
      </Loaded>
    </section>
  );
}
