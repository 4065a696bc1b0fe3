import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import {
  Badge,
  Button,
  ConfirmDialog,
  Empty,
  Loaded,
  Menu,
  Pagination,
  Table,
  Time,
  pageOf,
  toast,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/secrets";
import { SecretDialog } from "./secret-form";
import "./lists.css";

type Secret = Schema<"Secret">;
type Action = "edit" | "delete";

/** The section with the secrets. Members see them, but cannot change them. */
export function Secrets() {
  const manages = useManages();
  const [dialog, setDialog] = useState<"create" | { action: Action; secret: Secret }>();
  const close = () => setDialog(undefined);
  return (
    <section class="stack" aria-labelledby="secrets-title">
      <div class="row apart top section-header">
        <div class="grow">
          <h2 id="secrets-title">{texts.title}</h2>
          <p class="faint">
            {texts.intro} {!manages && texts.readOnly}
          </p>
        </div>
        {manages && (
          <Button kind="primary" icon="plus" onClick={() => setDialog("create")}>
            {texts.create}
          </Button>
        )}
      </div>
      <SecretList onAction={(action, secret) => setDialog({ action, secret })} />
      {dialog === "create" && <SecretDialog onClose={close} />}
      {typeof dialog === "object" && dialog.action === "edit" && (
        <SecretDialog secret={dialog.secret} onClose={close} />
      )}
      {typeof dialog === "object" && dialog.action === "delete" && (
        <DeleteDialog secret={dialog.secret} onClose={close} />
      )}
    </section>
  );
}

function SecretList({ onAction }: { onAction: (action: Action, secret: Secret) => void }) {
  const [address, change] = useAddress<"page" | "sortBy" | "sortOrder">();
  const sortBy = (address.sortBy ?? "name") as Schema<"SecretSortField">;
  const sortOrder = address.sortOrder === "desc" ? "desc" : "asc";
  const page = pageOf(address.page);
  const secrets = useQuery({
    queryKey: ["secrets", { page, sortBy, sortOrder }],
    queryFn: () => send(api.GET("/v1/secrets", { params: { query: { page, sortBy, sortOrder } } })),
  });
  const columns = useColumns(onAction);
  return (
    <Loaded query={secrets}>
      {({ items, pagination }) =>
        pagination.total === 0 ? (
          <Empty icon="key" title={texts.empty}>
            {texts.emptyHint}
          </Empty>
        ) : (
          <div>
            <Table
              label={texts.title}
              columns={columns}
              items={items}
              keyOf={(secret) => secret.id}
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

function useColumns(onAction: (action: Action, secret: Secret) => void): Column<Secret>[] {
  const manages = useManages();
  const columns: Column<Secret>[] = [
    {
      id: "name",
      title: texts.name,
      sortable: true,
      look: "title",
      cell: (secret) => <span class="strong">{secret.name}</span>,
    },
    { id: "username", title: texts.username, cell: (secret) => secret.username },
    {
      id: "fields",
      title: texts.fields,
      cell: (secret) => (
        <span class="row">
          {secret.hasPassword && <Badge>{texts.password}</Badge>}
          {secret.hasTotp && <Badge>{texts.totpSeed}</Badge>}
        </span>
      ),
    },
    { id: "origins", title: texts.origins, cell: (secret) => secret.origins.join(", ") },
    {
      id: "profiles",
      title: texts.profiles,
      cell: (secret) => (secret.profileIds ? texts.profileCount(secret.profileIds.length) : texts.allProfiles),
    },
    {
      id: "lastUsedAt",
      title: texts.lastUsed,
      sortable: true,
      cell: (secret) => <Time at={secret.lastUsedAt} never={texts.neverUsed} />,
    },
  ];
  return manages
    ? [...columns, { id: "actions", title: "", look: "fit corner", cell: (s) => <Actions secret={s} on={onAction} /> }]
    : columns;
}

function Actions({ secret, on }: { secret: Secret; on: (action: Action, secret: Secret) => void }) {
  const [, navigate] = useLocation();
  return (
    <Menu
      label={texts.actions(secret.name)}
      items={[
        { label: texts.edit, icon: "edit", onSelect: () => on("edit", secret) },
        { label: texts.uses, icon: "log", onSelect: () => navigate(`/audit-log?target=${secret.id}`) },
        "separator",
        { label: texts.delete, icon: "trash", danger: true, onSelect: () => on("delete", secret) },
      ]}
    />
  );
}

function DeleteDialog({ secret, onClose }: { secret: Secret; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = async () => {
    await send(api.DELETE("/v1/secrets/{secretId}", { params: { path: { secretId: secret.id } } }));
    toast(texts.deleted(secret.name));
    void queries.invalidateQueries({ queryKey: ["secrets"] });
  };
  return (
    <ConfirmDialog
      title={texts.deleteTitle(secret.name)}
      action={texts.deleteAction}
      name={secret.name}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>{texts.deleteHint}</p>
    </ConfirmDialog>
  );
}
