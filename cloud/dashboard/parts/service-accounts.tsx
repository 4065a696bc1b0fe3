import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { createServiceAccount as rule } from "../../../gen/web/cloud-rules";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import {
  Badge,
  Button,
  ConfirmDialog,
  Dialog,
  Empty,
  Loaded,
  Menu,
  Table,
  Time,
  toast,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages, useSession } from "../session";
import { texts } from "../texts/service-accounts";
import { Scopes, ScopesField, TokenSection, type TokenSource } from "./access-tokens";
import { allPages, personName, useAllMembers } from "./team";
import "./lists.css";

type Account = Schema<"ServiceAccount">;
type Scope = Schema<"AccessTokenScope">;
type Action = "tokens" | "edit" | "disable" | "enable" | "delete";

const base = "/v1/organizations/{organizationId}/service-accounts";
const one = `${base}/{serviceAccountId}` as const;

/** The section with the service accounts; only for owners and admins. */
export function ServiceAccounts() {
  if (!useManages())
    return (
      <Empty icon="key" title={texts.members}>
        {texts.membersHint}
      </Empty>
    );
  return <Accounts />;
}

function useAccounts() {
  const organizationId = useSession().organization.id;
  return useQuery({
    queryKey: ["service-accounts"],
    queryFn: () =>
      allPages((page) =>
        send(
          api.GET(base, {
            params: { path: { organizationId }, query: { page, limit: 100, sortBy: "name", sortOrder: "asc" } },
          }),
        ),
      ),
  });
}

function Accounts() {
  const accounts = useAccounts();
  const [address, change] = useAddress<"account">();
  const [dialog, setDialog] = useState<"create" | { action: Action; account: Account }>();
  const close = () => setDialog(undefined);
  const onAction = (action: Action, account: Account) =>
    action === "tokens" ? change({ account: account.id }) : setDialog({ action, account });
  const columns = useColumns(onAction);
  const shown = accounts.data?.find((account) => account.id === address.account);
  return (
    <div class="stack">
      <section class="stack" aria-labelledby="service-accounts-title">
        <div class="row apart top section-header">
          <div class="grow">
            <h2 id="service-accounts-title">{texts.title}</h2>
            <p class="faint">{texts.intro}</p>
          </div>
          <Button kind="primary" icon="plus" onClick={() => setDialog("create")}>
            {texts.create}
          </Button>
        </div>
        <Loaded query={accounts}>
          {(items) =>
            items.length === 0 ? (
              <Empty icon="key" title={texts.empty}>
                {texts.emptyHint}
              </Empty>
            ) : (
              <Table label={texts.title} columns={columns} items={items} keyOf={(account) => account.id} />
            )
          }
        </Loaded>
      </section>
      {shown && <AccountTokens key={shown.id} account={shown} />}
      {dialog === "create" && (
        <AccountDialog onClose={close} onCreated={(account) => change({ account: account.id })} />
      )}
      {typeof dialog === "object" && dialog.action === "edit" && (
        <AccountDialog account={dialog.account} onClose={close} />
      )}
      {typeof dialog === "object" && (dialog.action === "disable" || dialog.action === "enable") && (
        <SwitchDialog account={dialog.account} onClose={close} />
      )}
      {typeof dialog === "object" && dialog.action === "delete" && (
        <DeleteDialog account={dialog.account} onClose={close} />
      )}
    </div>
  );
}

function useColumns(onAction: (action: Action, account: Account) => void): Column<Account>[] {
  const members = useAllMembers().data;
  const [, navigate] = useLocation();
  const creator = (id: string | null) => {
    const person = members?.find((member) => member.id === id);
    return person ? personName(person) : texts.formerMember;
  };
  return [
    {
      id: "name",
      title: texts.name,
      look: "title",
      cell: (account) => (
        <span class="row">
          <span class="strong">{account.name}</span>
          {account.disabled && <Badge tone="bad">{texts.disabled}</Badge>}
        </span>
      ),
    },
    { id: "scopes", title: texts.scopes, cell: (account) => <Scopes names={account.scopes} /> },
    { id: "createdBy", title: texts.createdBy, cell: (account) => creator(account.createdBy) },
    {
      id: "lastUsedAt",
      title: texts.lastUsed,
      cell: (account) => <Time at={account.lastUsedAt} never={texts.neverUsed} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (account) => (
        <Menu
          label={texts.actions(account.name)}
          items={[
            { label: texts.tokens, icon: "key", onSelect: () => onAction("tokens", account) },
            { label: texts.edit, icon: "edit", onSelect: () => onAction("edit", account) },
            { label: texts.activity, icon: "log", onSelect: () => navigate(`/audit-log?actor=${account.id}`) },
            "separator",
            account.disabled
              ? { label: texts.enable, icon: "play", onSelect: () => onAction("enable", account) }
              : { label: texts.disable, icon: "stop", danger: true, onSelect: () => onAction("disable", account) },
            { label: texts.delete, icon: "trash", danger: true, onSelect: () => onAction("delete", account) },
          ]}
        />
      ),
    },
  ];
}

/** The tokens of an account, as in the account of a person. */
function AccountTokens({ account }: { account: Account }) {
  const path = { organizationId: useSession().organization.id, serviceAccountId: account.id };
  const source: TokenSource = {
    queryKey: ["service-accounts", account.id, "tokens"],
    scopes: rule.properties.scopes.items.enum.filter((scope) => includes(account.scopes, scope)),
    list: (page) => send(api.GET(`${one}/tokens`, { params: { path, query: { page, limit: 100 } } })),
    create: (body) => send(api.POST(`${one}/tokens`, { params: { path }, body })),
    revoke: (tokenId) => send(api.DELETE(`${one}/tokens/{tokenId}`, { params: { path: { ...path, tokenId } } })),
  };
  return (
    <TokenSection
      source={source}
      title={texts.tokensOf(account.name)}
      intro={account.disabled ? texts.tokensDisabled : texts.tokensHint}
      emptyHint={texts.noTokensHint}
      disabled={account.disabled}
    />
  );
}

/** Whether an account with these scopes can have a token with the scope: writing includes reading. */
const includes = (scopes: readonly Scope[], scope: Scope): boolean =>
  scopes.includes(scope) || (scopes as readonly string[]).includes(scope.replace(/:read$/, ":write"));

function AccountDialog({
  account,
  onCreated,
  onClose,
}: {
  account?: Account;
  onCreated?: (account: Account) => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const organizationId = useSession().organization.id;
  const title = account ? texts.editTitle(account.name) : texts.create;
  const form = useForm({
    rule,
    initial: { name: account?.name ?? "", scopes: account?.scopes ?? ([] as Scope[]) },
    onSubmit: async (values) => {
      const body = values as Schema<"CreateServiceAccountRequest">;
      const path = { organizationId };
      const saved = account
        ? await send(api.PATCH(one, { params: { path: { ...path, serviceAccountId: account.id } }, body }))
        : await send(api.POST(base, { params: { path }, body }));
      await queries.invalidateQueries({ queryKey: ["service-accounts"] });
      onCreated?.(saved);
      onClose();
    },
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <FormFrame form={form} label={title}>
        <TextField form={form} name="name" label={texts.name} hint={texts.nameHint} autocomplete="off" autofocus />
        <ScopesField form={form} />
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy}>
            {account ? texts.save : texts.create}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

function SwitchDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const queries = useQueryClient();
  const path = { organizationId: useSession().organization.id, serviceAccountId: account.id };
  const act = async () => {
    await send(api.PATCH(one, { params: { path }, body: { disabled: !account.disabled } }));
    await queries.invalidateQueries({ queryKey: ["service-accounts"] });
  };
  const [title, action, hint] = account.disabled
    ? [texts.enableTitle(account.name), texts.enable, texts.enableHint]
    : [texts.disableTitle(account.name), texts.disable, texts.disableHint];
  return (
    <ConfirmDialog title={title} action={action} onConfirm={act} onClose={onClose}>
      {hint}
    </ConfirmDialog>
  );
}

function DeleteDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const queries = useQueryClient();
  const path = { organizationId: useSession().organization.id, serviceAccountId: account.id };
  const remove = async () => {
    await send(api.DELETE(one, { params: { path } }));
    toast(texts.deleted(account.name));
    await queries.invalidateQueries({ queryKey: ["service-accounts"] });
  };
  return (
    <ConfirmDialog
      title={texts.deleteTitle(account.name)}
      action={texts.delete}
      name={account.name}
      onConfirm={remove}
      onClose={onClose}
    >
      {texts.deleteHint}
    </ConfirmDialog>
  );
}
