import { keepPreviousData, useQuery } from "@tanstack/preact-query";
import { Link, useLocation, useSearch } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import {
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Pagination,
  Table,
  Time,
  formatBytes,
  formatDuration,
  networkText,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useKeyNames, useMachineNames } from "../parts/fleet";
import {
  fromOf,
  isFiltered,
  noFilters,
  queryOf,
  sortOf,
  type ChangeAddress,
  type SessionAddress,
} from "../parts/session-address";
import { SessionDrawer } from "../parts/session-details";
import { SessionFilters } from "../parts/session-filters";
import { SessionBadge } from "../parts/session-status";
import { UsageExport } from "../parts/usage-export";
import { texts } from "../texts/sessions";
import "./machines.css";
import "./sessions.css";

type Session = Schema<"Session">;

/** The pages that are counted. Later sessions are reached by the cursor, at the same cost for each step. */
const countedPages = 8;

/** The sessions of the organization. The path `/sessions/<id>` opens one over the list. */
export default function Sessions({ params }: { params: { id?: string } }) {
  const [, navigate] = useLocation();
  const search = useSearch();
  const [address, change] = useAddress<keyof SessionAddress>();
  const query = useSessions(address);
  const openPath = (id?: string) => `/sessions${id ? `/${id}` : ""}${search && `?${search}`}`;
  return (
    <>
      <header class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.subtitle}</p>
        </div>
        <UsageExport address={address} />
      </header>
      <SessionFilters address={address} change={change} />
      <Loaded query={query} lines={8}>
        {(list) => <List list={list} address={address} change={change} openId={params.id} pathOf={openPath} />}
      </Loaded>
      {params.id && <SessionDrawer key={params.id} sessionId={params.id} onClose={() => navigate(openPath())} />}
    </>
  );
}

/** The list is live while it shows running sessions, or the newest ones. */
function useSessions(address: SessionAddress) {
  const first = !address.cursor && (address.page ?? "1") === "1";
  return useQuery({
    queryKey: ["sessions", "list", address],
    queryFn: () => send(api.GET("/v1/sessions", { params: { query: queryOf(address) } })),
    refetchInterval: (query) =>
      first || query.state.data?.items.some((s) => s.status === "running") ? poll(liveInterval)(query) : false,
    placeholderData: keepPreviousData,
  });
}

interface ListProps {
  list: Schema<"SessionList">;
  address: SessionAddress;
  change: ChangeAddress;
  openId: string | undefined;
  pathOf: (id: string) => string;
}

function List({ list, address, change, openId, pathOf }: ListProps) {
  const [, navigate] = useLocation();
  const columns = useColumns(pathOf);
  if (list.items.length === 0) return <NoSessions address={address} change={change} />;
  return (
    <>
      <Table
        label={texts.list}
        columns={columns}
        items={list.items}
        keyOf={(s) => s.id}
        sort={sortOf(address)}
        onSort={({ by, order }) => change({ sortBy: by, sortOrder: order })}
        onOpen={(s) => navigate(pathOf(s.id))}
        openKey={openId}
      />
      <Pages list={list} address={address} change={change} />
    </>
  );
}

/** Pages for recent sessions, then steps to older ones. */
function Pages({ list: { pagination, nextCursor }, address, change }: Pick<ListProps, "list" | "address" | "change">) {
  // A quick range moves with the time; older sessions are relative to its start now.
  const older = () =>
    change({
      cursor: nextCursor ?? "",
      range: "",
      from: fromOf(address) ?? "",
    });
  const { page, total, totalPages } = pagination;
  if (page !== null && total !== null && totalPages !== null)
    return (
      <Pagination
        info={{ ...pagination, page, total, totalPages }}
        onPage={(to) => (to > countedPages && to > page && nextCursor ? older() : change({ page: String(to) }))}
      />
    );
  return (
    <nav class="pagination" aria-label={texts.pages}>
      <span>{texts.olderSessions}</span>
      <span class="row">
        <Button size="small" icon="left" onClick={() => change({})}>
          {texts.newest}
        </Button>
        <Button size="small" disabled={!nextCursor} onClick={older}>
          {texts.older}
        </Button>
      </span>
    </nav>
  );
}

function NoSessions({ address, change }: Pick<ListProps, "address" | "change">) {
  return isFiltered(address) || address.page || address.cursor ? (
    <Empty
      icon="filter"
      title={texts.noMatchTitle}
      action={<Button onClick={() => change(noFilters)}>{texts.clearFilters}</Button>}
    >
      {texts.noMatchHint}
    </Empty>
  ) : (
    <Empty
      icon="activity"
      title={texts.emptyTitle}
      action={
        <ButtonLink kind="primary" to="/connect" icon="plug">
          {texts.emptyAction}
        </ButtonLink>
      }
    >
      {texts.emptyHint}
    </Empty>
  );
}

function useColumns(pathOf: (id: string) => string): Column<Session>[] {
  const keys = useKeyNames();
  const machines = useMachineNames();
  const { columns } = texts;
  return [
    {
      id: "profile",
      title: columns.profile,
      look: "title",
      cell: (s) => (
        <>
          <Link class="truncate" href={pathOf(s.id)} title={s.name ?? s.profileName}>
            {s.name ?? s.profileName}
          </Link>
          {s.name && <p class="faint small truncate">{s.profileName}</p>}
        </>
      ),
    },
    {
      id: "status",
      title: columns.status,
      look: "corner",
      cell: (s) => <SessionBadge session={s} />,
    },
    {
      id: "startedAt",
      title: columns.startedAt,
      sortable: true,
      look: "fit",
      cell: (s) => <Time at={s.startedAt} />,
    },
    {
      id: "endedAt",
      title: columns.endedAt,
      sortable: true,
      look: "fit",
      cell: (s) => <Time at={s.endedAt} never={texts.detail.notEnded} />,
    },
    {
      id: "duration",
      title: columns.duration,
      look: "end fit",
      cell: (s) => <span class="numeric">{formatDuration(s.durationSeconds)}</span>,
    },
    {
      id: "traffic",
      title: columns.traffic,
      look: "end fit",
      cell: ({ network }) =>
        network && (
          <span class="numeric" title={networkText(network)}>
            {formatBytes(network.bytesSent + network.bytesReceived)}
          </span>
        ),
    },
    {
      id: "machine",
      title: columns.machine,
      cell: (s) => (
        <span class="truncate" title={s.machineId}>
          {machines.get(s.machineId) ?? s.machineId}
        </span>
      ),
    },
    {
      id: "key",
      title: columns.key,
      cell: (s) => (s.keyId && keys.get(s.keyId)) || <span class="faint">{texts.unknownKey}</span>,
    },
    {
      id: "browser",
      title: columns.browser,
      look: "end fit",
      cell: (s) => <span class="numeric">{s.browserVersion}</span>,
    },
  ];
}
