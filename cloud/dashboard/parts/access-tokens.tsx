import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { createAccessToken as rule } from "../../../gen/web/cloud-rules";
import { send } from "../../../shared/web/api/client";
import { Field, FormFrame, TextField, useForm, type Form } from "../../../shared/web/forms/form";
import {
  Badge,
  Button,
  CodeBlock,
  ConfirmDialog,
  Dialog,
  Empty,
  Loaded,
  Table,
  Time,
  toast,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts as shared } from "../texts/account";
import { Expiry } from "./api-keys";
import { ExpiryField } from "./expiry-field";
import { StoreOnceDialog } from "./store-once";
import { allPages } from "./team";

type Token = Schema<"AccessToken">;
type Scope = Schema<"AccessTokenScope">;

const texts = shared.tokens;
const allScopes = rule.properties.scopes.items.enum;

/** The access tokens of one user or service account, and what changes them. */
export interface TokenSource {
  queryKey: string[];
  /** The scopes that a token can have. */
  scopes: readonly Scope[];
  list: (page: number) => Promise<Schema<"AccessTokenList">>;
  create: (body: Schema<"CreateAccessTokenRequest">) => Promise<Schema<"CreatedAccessToken">>;
  revoke: (tokenId: string) => Promise<unknown>;
}

/** The user's access tokens for the active organization. */
export function AccessTokens() {
  const source: TokenSource = {
    queryKey: ["access-tokens"],
    scopes: allScopes,
    list: (page) => send(api.GET("/v1/auth/tokens", { params: { query: { page, limit: 100 } } })),
    create: (body) => send(api.POST("/v1/auth/tokens", { body })),
    revoke: (tokenId) => send(api.DELETE("/v1/auth/tokens/{tokenId}", { params: { path: { tokenId } } })),
  };
  const intro = texts.intro(useSession().organization.name);
  return <TokenSection source={source} title={texts.title} intro={intro} emptyHint={texts.emptyHint} />;
}

/** A section with access tokens. */
export function TokenSection({
  source,
  title,
  intro,
  emptyHint,
  disabled = false,
}: {
  source: TokenSource;
  title: string;
  intro: string;
  emptyHint: string;
  disabled?: boolean;
}) {
  const [creating, setCreating] = useState(false);
  const [created, setCreated] = useState<string>();
  const [revoking, setRevoking] = useState<Token>();
  const tokens = useQuery({ queryKey: source.queryKey, queryFn: () => allPages(source.list) });
  return (
    <section class="stack" aria-labelledby="access-tokens">
      <div class="row apart">
        <div class="account-text">
          <h2 id="access-tokens">{title}</h2>
          <p class="faint">{intro}</p>
        </div>
        <Button icon="plus" disabled={disabled} onClick={() => setCreating(true)}>
          {texts.create}
        </Button>
      </div>
      <Loaded query={tokens}>
        {(items) =>
          items.length === 0 ? (
            <Empty icon="key" title={texts.empty}>
              {emptyHint}
            </Empty>
          ) : (
            <Table label={title} columns={columns(setRevoking)} items={items} keyOf={(token) => token.id} />
          )
        }
      </Loaded>
      {creating && (
        <CreateDialog
          source={source}
          onCreated={(token) => {
            setCreating(false);
            setCreated(token);
          }}
          onClose={() => setCreating(false)}
        />
      )}
      {created && (
        <StoreOnceDialog title={texts.created} confirmation={texts.stored} onClose={() => setCreated(undefined)}>
          <CodeBlock text={created} label={texts.full} />
          <p class="faint">{texts.use}</p>
        </StoreOnceDialog>
      )}
      {revoking && <RevokeDialog source={source} token={revoking} onClose={() => setRevoking(undefined)} />}
    </section>
  );
}

function columns(onRevoke: (token: Token) => void): Column<Token>[] {
  return [
    {
      id: "name",
      title: texts.name,
      look: "title",
      cell: (token) => (
        <span class="row">
          <span class="strong">{token.name}</span>
          <code class="nowrap">svct_...{token.lastFour}</code>
        </span>
      ),
    },
    {
      id: "scopes",
      title: texts.scopes,
      cell: (token) => <Scopes names={token.scopes} />,
    },
    {
      id: "lastUsedAt",
      title: shared.lastUse,
      cell: (token) => <Time at={token.lastUsedAt} never={texts.neverUsed} />,
    },
    { id: "expiresAt", title: shared.expires, cell: (token) => <Expiry at={token.expiresAt} /> },
    {
      id: "actions",
      title: "",
      look: "fit end corner",
      cell: (token) => (
        <Button size="small" aria-label={texts.revokeTitle(token.name)} onClick={() => onRevoke(token)}>
          {texts.revoke}
        </Button>
      ),
    },
  ];
}

/** The scopes of a token or of a service account. */
export function Scopes({ names }: { names: readonly Scope[] }) {
  return (
    <span class="row">
      {names.map((scope) => (
        <Badge key={scope}>{scope}</Badge>
      ))}
    </span>
  );
}

const initial = { name: "", scopes: [] as Scope[], expiresAt: null as string | null };

function CreateDialog({
  source,
  onCreated,
  onClose,
}: {
  source: TokenSource;
  onCreated: (token: string) => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const form = useForm({
    rule,
    initial,
    body: ({ expiresAt, ...rest }) => (expiresAt ? { ...rest, expiresAt } : rest),
    onSubmit: async (body) => {
      // No mutation of the query cache: it would keep the full token in memory.
      const { token } = await source.create(body as Schema<"CreateAccessTokenRequest">);
      void queries.invalidateQueries({ queryKey: source.queryKey });
      onCreated(token);
    },
  });
  return (
    <Dialog title={texts.create} onClose={onClose}>
      <FormFrame form={form} label={texts.create}>
        <TextField form={form} name="name" label={texts.name} hint={texts.nameHint} autocomplete="off" autofocus />
        <ScopesField form={form} scopes={source.scopes} />
        <ExpiryField form={form} hint={texts.expiryHint} unlimited={false} />
        <div class="row end">
          <Button onClick={onClose}>{shared.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy}>
            {texts.create}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

/** The choice of scopes for a token or a service account. */
export function ScopesField<V extends { scopes: Scope[] }>({
  form,
  scopes = allScopes,
}: {
  form: Form<V>;
  scopes?: readonly Scope[];
}) {
  const selected = form.values.scopes;
  const toggle = (scope: Scope, checked: boolean) =>
    form.set("scopes", checked ? [...selected, scope] : selected.filter((other) => other !== scope));
  return (
    <Field form={form} name="scopes" label={texts.scopes} hint={texts.scopesHint}>
      {(control) => (
        <div {...control} class="stack tight" role="group" aria-label={texts.scopes}>
          {scopes.map((scope) => (
            <label key={scope} class="check">
              <input
                type="checkbox"
                checked={selected.includes(scope)}
                onChange={(event) => toggle(scope, event.currentTarget.checked)}
              />
              <span>
                <code>{scope}</code> <span class="faint">{texts.scopeHints[scope]}</span>
              </span>
            </label>
          ))}
        </div>
      )}
    </Field>
  );
}

function RevokeDialog({ source, token, onClose }: { source: TokenSource; token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const revoke = async () => {
    await source.revoke(token.id);
    toast(texts.revoked(token.name));
    void queries.invalidateQueries({ queryKey: source.queryKey });
  };
  return (
    <ConfirmDialog title={texts.revokeTitle(token.name)} action={texts.revoke} onConfirm={revoke} onClose={onClose}>
      {texts.revokeHint}
    </ConfirmDialog>
  );
}
