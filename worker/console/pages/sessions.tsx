import { useQuery } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { useLocation, useParams, useSearch } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import {
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Pagination,
  SearchField,
  Segments,
  pageOf,
  toastError,
  useAddress,
  type Sort,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { liveQuery } from "../live";
import { EndDialog, openPage } from "../parts/session-actions";
import { SessionCard, type SessionActions } from "../parts/session-card";
import { SessionDrawer } from "../parts/session-drawer";
import { SessionTable } from "../parts/session-table";
import { texts } from "../texts/sessions";
import "./sessions.css";

type Session = Schema<"BrowserSession">;
type Status = keyof typeof texts.statuses;
type Key = "status" | "q" | "view" | "page" | "sort" | "order";

const pageSize = 48;
/** How many sessions a search loads: the API does not search. */
const searched = 500;
const largest = 100;

interface Filter {
  status: Status;
  search: string;
  page: number;
  sort: Sort;
}

function filterOf(address: Partial<Record<Key, string>>): Filter {
  const status = address.status ?? "";
  return {
    status: status in texts.statuses ? (status as Status) : "running",
    search: (address.q ?? "").trim().toLowerCase(),
    page: pageOf(address.page),
    sort: {
      by: address.sort === "endedAt" ? "endedAt" : "startedAt",
      order: address.order === "asc" ? "asc" : "desc",
    },
  };
}

function fetchPage(filter: Filter, page: number, limit: number) {
  const query = {
    page,
    limit,
    sortBy: filter.sort.by as Schema<"BrowserSessionSortField">,
    sortOrder: filter.sort.order,
    status: filter.status === "all" ? undefined : filter.status,
  };
  return send(api.GET("/sessions", { params: { query } }));
}

/** Returns the sessions that match the search, from all pages up to a limit. */
async function search(filter: Filter): Promise<Schema<"BrowserSessionList">> {
  let list = await fetchPage(filter, 1, largest);
  const items = [...list.items];
  while (list.pagination.hasNext && items.length < searched) {
    list = await fetchPage(filter, list.pagination.page + 1, largest);
    items.push(...list.items);
  }
  return { items, pagination: list.pagination };
}

function matches(session: Session, text: string): boolean {
  const { name, profileName, profileId, id, launchId, bundle, metadata } = session;
  const labels = Object.entries(metadata).flat();
  return [name, profileName, profileId, id, launchId, bundle?.name, ...labels].some((value) =>
    value?.toLowerCase().includes(text),
  );
}

function useSessions(filter: Filter) {
  const searching = filter.search !== "";
  const { status, page, sort } = filter;
  return useQuery({
    queryKey: ["sessions", status, searching, page, sort.by, sort.order],
    queryFn: () => (searching ? search(filter) : fetchPage(filter, page, pageSize)),
    placeholderData: (old, query) => (query?.queryKey[1] === status ? old : undefined),
    refetchInterval: poll(searching ? summaryInterval : detailInterval),
  });
}

/** Whether thumbnails are paused, kept for this browser. */
function usePaused(): [boolean, (paused: boolean) => void] {
  const key = "svc-thumbnails-paused";
  const [paused, setPaused] = useState(() => localStorage.getItem(key) !== null);
  const change = (next: boolean) => {
    if (next) localStorage.setItem(key, "");
    else localStorage.removeItem(key);
    setPaused(next);
  };
  return [paused, change];
}

/** The wall of sessions, and the details of one over it. */
export default function Sessions() {
  const { id } = useParams<{ id?: string }>();
  const [, navigate] = useLocation();
  const query = useSearch();
  const [address, change] = useAddress<Key>();
  const [paused, setPaused] = usePaused();
  const [ending, setEnding] = useState<Session>();
  const filter = filterOf(address);
  const sessions = useSessions(filter);
  const wall = address.view !== "list";
  const to = (path: string) => (query ? `${path}?${query}` : path);
  const actions: SessionActions = {
    linkTo: (s) => to(`/sessions/${s.id}`),
    onDetails: (s) => navigate(to(`/sessions/${s.id}`)),
    onOpen: (s, page) => void openPage(s, page).catch(toastError),
    onEnd: setEnding,
  };
  return (
    <>
      <PageHeader />
      <Toolbar
        filter={filter}
        wall={wall}
        paused={paused}
        setPaused={setPaused}
        change={change}
        text={address.q ?? ""}
      />
      <Loaded query={sessions} lines={6}>
        {(list) => (
          <List
            list={list}
            filter={filter}
            wall={wall}
            paused={paused || id !== undefined}
            openId={id}
            change={change}
            actions={actions}
          />
        )}
      </Loaded>
      {id && <SessionDrawer key={id} id={id} onClose={() => navigate(to("/sessions"))} />}
      {ending && <EndDialog session={ending} onClose={() => setEnding(undefined)} />}
    </>
  );
}

function PageHeader() {
  const live = useQuery(liveQuery).data;
  return (
    <div class="page-header">
      <div>
        <h1>{texts.title}</h1>
        {live && (
          <p class="numeric">
            {texts.capacity(live.activeSessions, live.maxSessions)}
            {live.launching > 0 && texts.launching(live.launching)}
          </p>
        )}
      </div>
      <ButtonLink to="/launch" kind="primary" icon="play">
        {texts.launch}
      </ButtonLink>
    </div>
  );
}

type Change = (changes: Partial<Record<Key, string>>, replace?: boolean) => void;

function Toolbar({
  filter,
  wall,
  paused,
  setPaused,
  change,
  text,
}: {
  filter: Filter;
  wall: boolean;
  paused: boolean;
  setPaused: (paused: boolean) => void;
  change: Change;
  text: string;
}) {
  return (
    <div class="toolbar" role="search">
      <SearchField label={texts.search} value={text} onSearch={(q) => change({ q }, true)} />
      <Segments
        label={texts.statusLabel}
        name="status"
        value={filter.status}
        options={Object.entries(texts.statuses)}
        onChange={(status) => change({ status: status === "running" ? "" : status })}
      />
      <Segments
        label={texts.viewLabel}
        name="view"
        value={wall ? "wall" : "list"}
        options={[
          ["wall", texts.wall],
          ["list", texts.list],
        ]}
        onChange={(view) =>
          change({
            view: view === "wall" ? "" : view,
            page: filter.page > 1 ? String(filter.page) : "",
          })
        }
      />
      {wall && (
        <Button icon={paused ? "play" : "pause"} onClick={() => setPaused(!paused)}>
          {paused ? texts.resumeThumbnails : texts.pauseThumbnails}
        </Button>
      )}
    </div>
  );
}

function List({
  list,
  filter,
  wall,
  paused,
  openId,
  change,
  actions,
}: {
  list: Schema<"BrowserSessionList">;
  filter: Filter;
  wall: boolean;
  paused: boolean;
  openId?: string;
  change: Change;
  actions: SessionActions;
}) {
  const items = filter.search ? list.items.filter((s) => matches(s, filter.search)) : list.items;
  if (items.length === 0) return <NoSessions filter={filter} clear={() => change({ q: "" })} />;
  return (
    <>
      {wall ? (
        <ul class="wall">
          {items.map((s) => (
            <SessionCard key={s.id} session={s} paused={paused} {...actions} />
          ))}
        </ul>
      ) : (
        <SessionTable
          items={items}
          sort={filter.sort}
          onSort={({ by, order }) => change({ sort: by, order })}
          openId={openId}
          {...actions}
        />
      )}
      {filter.search === "" ? (
        <Pagination info={list.pagination} onPage={(page) => change({ page: page === 1 ? "" : String(page) })} />
      ) : (
        list.pagination.hasNext && <p class="faint">{texts.searched(list.items.length)}</p>
      )}
    </>
  );
}

function NoSessions({ filter, clear }: { filter: Filter; clear: () => void }) {
  if (filter.search)
    return (
      <Empty icon="search" title={texts.noMatch} action={<Button onClick={clear}>{texts.clear}</Button>}>
        {texts.noMatchHint}
      </Empty>
    );
  if (filter.status !== "running" && filter.status !== "all")
    return (
      <Empty icon="activity" title={texts.emptyEnded}>
        {texts.emptyEndedHint}
      </Empty>
    );
  return (
    <Empty
      icon="activity"
      title={texts.empty}
      action={
        <ButtonLink to="/launch" kind="primary" icon="play">
          {texts.launch}
        </ButtonLink>
      }
    >
      {texts.emptyHint}
    </Empty>
  );
}
