import { useQuery } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import {
  Badge,
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Menu,
  Pagination,
  Table,
  Time,
  machineName,
  pageOf,
  useAddress,
  type Column,
  type MenuItem,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages, useSession } from "../session";
import { texts } from "../texts/settings";
import { CreateKeyDialog, EditKeyDialog } from "./create-key";
import { CreatedKeyDialog } from "./created-key";
import { useLatestMachines } from "./fleet";
import { KeyRotation } from "./key-rotation";
import { RevokeKeyDialog } from "./revoke-key";
import { personName, useAllMembers, useMachines } from "./team";
import "./lists.css";

type Key = Schema<"ApiKey">;
type Action = "edit" | "revoke";

/** The section with the organization keys. */
export function ApiKeys() {
  const [{ rotate, to }] = useAddress<"rotate" | "to">();
  if (!useManages())
    return (
      <Empty icon="key" title={texts.keys.members}>
        {texts.keys.membersHint}
      </Empty>
    );
  if (rotate) return <KeyRotation oldId={rotate} newId={to} />;
  return <KeyList />;
}

function KeyList() {
  const [dialog, setDialog] = useState<"create" | { action: Action; key: Key }>();
  const [created, setCreated] = useState<Schema<"CreatedApiKey">>();
  const close = () => setDialog(undefined);
  return (
    <section class="stack" aria-labelledby="keys-title">
      <div class="row apart top section-header">
        <div class="grow">
          <h2 id="keys-title">{texts.keys.title}</h2>
          <p class="faint">{texts.keys.intro}</p>
        </div>
        <Button kind="primary" icon="plus" onClick={() => setDialog("create")}>
          {texts.keys.create}
        </Button>
      </div>
      <Keys onAction={(action, key) => setDialog({ action, key })} />
      {dialog === "create" && (
        <CreateKeyDialog
          onClose={close}
          onCreated={(key) => {
            close();
            setCreated(key);
          }}
        />
      )}
      {typeof dialog === "object" && dialog.action === "edit" && <EditKeyDialog apiKey={dialog.key} onClose={close} />}
      {typeof dialog === "object" && dialog.action === "revoke" && (
        <RevokeKeyDialog apiKey={dialog.key} onClose={close} />
      )}
      {created && <CreatedKeyDialog created={created} onClose={() => setCreated(undefined)} />}
    </section>
  );
}

function Keys({ onAction }: { onAction: (action: Action, key: Key) => void }) {
  const organizationId = useSession().organization.id;
  const [address, change] = useAddress<"page" | "sortBy" | "sortOrder" | "rotate">();
  const sortBy = (address.sortBy ?? "createdAt") as Schema<"ApiKeySortField">;
  const sortOrder = address.sortOrder === "asc" ? "asc" : "desc";
  const page = pageOf(address.page);
  const keys = useQuery({
    queryKey: ["keys", { page, sortBy, sortOrder }],
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/api-keys", {
          params: {
            path: { organizationId },
            query: { page, sortBy, sortOrder },
          },
        }),
      ),
  });
  const columns = useColumns((key) => [
    {
      label: texts.keys.edit,
      icon: "edit",
      onSelect: () => onAction("edit", key),
    },
    {
      label: texts.keys.rotate,
      icon: "refresh",
      onSelect: () => change({ rotate: key.id }),
    },
    "separator",
    {
      label: texts.keys.revoke,
      icon: "trash",
      danger: true,
      onSelect: () => onAction("revoke", key),
    },
  ]);
  return (
    <Loaded query={keys}>
      {({ items, pagination }) =>
        pagination.total === 0 ? (
          <Empty
            icon="key"
            title={texts.keys.empty}
            action={<ButtonLink to="/connect">{texts.keys.connect}</ButtonLink>}
          >
            {texts.keys.emptyHint}
          </Empty>
        ) : (
          <div>
            <Table
              label={texts.keys.title}
              columns={columns}
              items={items}
              keyOf={(key) => key.id}
              sort={{ by: sortBy, order: sortOrder }}
              onSort={({ by, order }) => change({ sortBy: by, sortOrder: order })}
            />
            <Pagination info={pagination} onPage={(next) => change({ page: String(next) })} />
          </div>
        )
      }
    </Loaded>
  );
}

function useColumns(menuOf: (key: Key) => (MenuItem | "separator")[]): Column<Key>[] {
  const members = useAllMembers();
  const creator = (id: string | null) => {
    if (id === null) return texts.keys.formerMember;
    if (!members.data) return "";
    const member = members.data.find((m) => m.id === id);
    return member ? personName(member) : texts.keys.formerMember;
  };
  return [
    {
      id: "name",
      title: texts.keys.name,
      sortable: true,
      look: "title",
      cell: (key) => <span class="strong">{key.name}</span>,
    },
    {
      id: "key",
      title: texts.keys.key,
      cell: (key) => (
        <code class="nowrap">
          {key.prefix}...{key.lastFour}
        </code>
      ),
    },
    {
      id: "machines",
      title: texts.keys.machines,
      cell: (key) => <KeyMachines keyId={key.id} />,
    },
    {
      id: "createdBy",
      title: texts.keys.createdBy,
      cell: (key) => creator(key.createdBy),
    },
    {
      id: "lastUsedAt",
      title: texts.keys.lastUsed,
      sortable: true,
      cell: (key) => <Time at={key.lastUsedAt} never={texts.keys.neverUsed} />,
    },
    {
      id: "expiresAt",
      title: texts.keys.expires,
      cell: (key) => <Expiry at={key.expiresAt} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (key) => <Menu label={texts.actions(key.name)} items={menuOf(key)} />,
    },
  ];
}

/** When a key expires; marks a key that has expired. */
export function Expiry({ at }: { at: string | null }) {
  if (at && new Date(at).getTime() <= Date.now()) return <Badge tone="bad">{texts.keys.expired}</Badge>;
  return <Time at={at} never={texts.keys.neverExpires} />;
}

const shownMachines = 3;

/** The machines of a key. One request serves all keys, unless the organization has many machines. */
function useKeyMachines(keyId: string): { items: Schema<"Machine">[]; total: number } | undefined {
  const latest = useLatestMachines().data;
  const complete = latest !== undefined && !latest.pagination.hasNext;
  const own = useMachines(keyId, shownMachines, undefined, latest !== undefined && !complete).data;
  if (!complete) return own && { items: own.items, total: own.pagination.total };
  const items = latest.items.filter((m) => m.keyId === keyId);
  return { items: items.slice(0, shownMachines), total: items.length };
}

function KeyMachines({ keyId }: { keyId: string }) {
  const machines = useKeyMachines(keyId);
  if (!machines) return <span class="faint">...</span>;
  const { items, total } = machines;
  if (total === 0) return <span class="faint">{texts.keys.noMachines}</span>;
  return (
    <span>
      {items
        .map((m) => (m.state === "offline" ? texts.keys.offlineMachine(machineName(m)) : machineName(m)))
        .join(", ")}
      {total > items.length && ` ${texts.keys.more(total - items.length)}`}
    </span>
  );
}
