import { keepPreviousData, useQuery } from "@tanstack/preact-query";
import { Link, useSearch } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import {
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Notice,
  Pagination,
  SearchField,
  Table,
  Time,
  machineName,
  pageOf,
  useAddress,
  type Column,
  type Sort,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useKeyNames, useLatestMachines } from "../parts/fleet";
import { MachineDrawer } from "../parts/machine-details";
import { Capacity, MachineBadges, Version, versionCounts } from "../parts/machine-state";
import { texts } from "../texts/machines";
import "./machines.css";

type Machine = Schema<"Machine">;
type Key = "state" | "keyId" | "search" | "sortBy" | "sortOrder" | "page" | "machine";
type Address = Partial<Record<Key, string>>;
type Change = (changes: Address, replace?: boolean) => void;

/** The machines of the organization. `machine` in the address opens one. */
export default function Machines() {
  const [address, change] = useAddress<Key>();
  const latest = useLatestMachines(summaryInterval);
  const query = useMachines(address);
  const versions = versionCounts(latest.data?.items ?? []);
  const newest = versions.length > 1 ? versions[0]?.[0] : undefined;
  return (
    <>
      <header class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.subtitle}</p>
        </div>
        <ButtonLink to="/connect" icon="plus">
          {texts.connect}
        </ButtonLink>
      </header>
      {versions.length > 1 && (
        <div class="above">
          <Notice tone="wait" title={texts.versionsDiffer}>
            {texts.versionsHint(versions.map(([v, n]) => texts.versionCount(v, n)).join(", "))}
          </Notice>
        </div>
      )}
      <Filters address={address} change={change} />
      <Loaded query={query} lines={6}>
        {(list) => <List list={list} address={address} change={change} newest={newest} />}
      </Loaded>
      {address.machine && (
        <MachineDrawer
          key={address.machine}
          machineId={address.machine}
          newest={newest}
          onClose={() => change({ machine: "", page: address.page ?? "" })}
        />
      )}
    </>
  );
}

function sortOf(address: Address): Sort {
  return {
    by: address.sortBy ?? "hostName",
    order: address.sortOrder === "desc" ? "desc" : "asc",
  };
}

function useMachines(address: Address) {
  const { by, order } = sortOf(address);
  const query = {
    page: pageOf(address.page),
    limit: 25,
    sortBy: by as Schema<"MachineSortField">,
    sortOrder: order,
    state: address.state as Schema<"MachineState"> | undefined,
    keyId: address.keyId,
    search: address.search,
  };
  return useQuery({
    queryKey: ["machines", "list", query],
    queryFn: () => send(api.GET("/v1/machines", { params: { query } })),
    refetchInterval: poll(liveInterval),
    placeholderData: keepPreviousData,
  });
}

function Filters({ address, change }: { address: Address; change: Change }) {
  const keys = useKeyNames();
  const { by, order } = sortOf(address);
  const sort = `${by} ${order}`;
  return (
    <div class="toolbar machine-filters" role="group" aria-label={texts.list}>
      <SearchField label={texts.search} value={address.search ?? ""} onSearch={(search) => change({ search }, true)} />
      <select
        class="select"
        aria-label={texts.state}
        value={address.state ?? ""}
        onChange={(event) => change({ state: event.currentTarget.value })}
      >
        <option value="">{texts.anyState}</option>
        {Object.entries(texts.states).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <select
        class="select"
        aria-label={texts.key}
        value={address.keyId ?? ""}
        onChange={(event) => change({ keyId: event.currentTarget.value })}
      >
        <option value="">{texts.anyKey}</option>
        {address.keyId && !keys.has(address.keyId) && <option value={address.keyId}>{texts.unknownKey}</option>}
        {[...keys].map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
      <select
        class="select"
        aria-label={texts.order}
        value={sort}
        onChange={(event) => {
          const [sortBy, sortOrder] = event.currentTarget.value.split(" ");
          change({ sortBy, sortOrder });
        }}
      >
        {!(sort in texts.orders) && <option value={sort}>{texts.order}</option>}
        {Object.entries(texts.orders).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </div>
  );
}

function List({
  list,
  address,
  change,
  newest,
}: {
  list: Schema<"MachineList">;
  address: Address;
  change: Change;
  newest: string | undefined;
}) {
  const columns = useColumns(newest);
  const open = (machine: Machine) => change({ machine: machine.machineId, page: address.page ?? "" });
  if (list.items.length === 0) return <NoMachines address={address} change={change} />;
  return (
    <>
      <Table
        label={texts.list}
        columns={columns}
        items={list.items}
        keyOf={(m) => m.machineId}
        sort={sortOf(address)}
        onSort={({ by, order }) => change({ sortBy: by, sortOrder: order })}
        onOpen={open}
        openKey={address.machine}
      />
      <Pagination info={list.pagination} onPage={(page) => change({ page: String(page) })} />
    </>
  );
}

function NoMachines({ address, change }: { address: Address; change: Change }) {
  const filtered = address.search || address.state || address.keyId || address.page;
  return filtered ? (
    <Empty
      icon="filter"
      title={texts.noMatchTitle}
      action={<Button onClick={() => change({ search: "", state: "", keyId: "" })}>{texts.clearFilters}</Button>}
    >
      {texts.noMatchHint}
    </Empty>
  ) : (
    <Empty
      icon="server"
      title={texts.emptyTitle}
      action={
        <ButtonLink kind="primary" to="/connect" icon="plug">
          {texts.connect}
        </ButtonLink>
      }
    >
      {texts.emptyHint}
    </Empty>
  );
}

function useColumns(newest: string | undefined): Column<Machine>[] {
  const search = useSearch();
  const hrefOf = (id: string) => {
    const query = new URLSearchParams(search);
    query.set("machine", id);
    return `/machines?${query}`;
  };
  const { columns } = texts;
  return [
    {
      id: "hostName",
      title: columns.machine,
      sortable: true,
      look: "title",
      cell: (m) => (
        <span class="machine-name">
          <Link class="truncate" href={hrefOf(m.machineId)} title={machineName(m)}>
            {machineName(m)}
          </Link>
          {machineName(m) !== m.machineId && (
            <code class="truncate faint small" title={m.machineId}>
              {m.machineId}
            </code>
          )}
        </span>
      ),
    },
    {
      id: "state",
      title: columns.state,
      cell: (m) => <MachineBadges machine={m} />,
    },
    {
      id: "sessions",
      title: columns.sessions,
      cell: (m) => <Capacity machine={m} />,
    },
    {
      id: "version",
      title: columns.version,
      cell: (m) => <Version machine={m} newest={newest} />,
    },
    {
      id: "key",
      title: columns.key,
      cell: (m) => m.keyName ?? <span class="faint nowrap">{m.keyId ? texts.unknownKey : texts.notReported}</span>,
    },
    {
      id: "lastHeartbeatAt",
      title: columns.lastHeartbeatAt,
      sortable: true,
      look: "fit",
      cell: (m) => <Time at={m.lastHeartbeatAt} />,
    },
    {
      id: "firstSeenAt",
      title: columns.firstSeenAt,
      sortable: true,
      look: "fit",
      cell: (m) => <Time at={m.firstSeenAt} />,
    },
  ];
}
