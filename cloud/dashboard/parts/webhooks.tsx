import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import {
  Badge,
  Button,
  CodeBlock,
  ConfirmDialog,
  Empty,
  Loaded,
  Menu,
  Table,
  Time,
  formatTime,
  toast,
  toastError,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/webhooks";
import { StoreOnceDialog } from "./store-once";
import { allPages } from "./team";
import { DeliveryLog, StateBadge, useDeliveries } from "./webhook-deliveries";
import { EndpointDialog } from "./webhook-form";
import "./lists.css";

type Endpoint = Schema<"WebhookEndpoint">;
type Action = "log" | "test" | "edit" | "rotate" | "switch" | "delete";
type Open = "create" | { action: Action; endpoint: Endpoint };

const one = "/v1/webhooks/endpoints/{endpointId}";
const pathOf = (endpoint: Endpoint) => ({ path: { endpointId: endpoint.id } });

/** The section with the webhook endpoints; only for owners and admins. */
export function Webhooks() {
  if (!useManages())
    return (
      <Empty icon="activity" title={texts.members}>
        {texts.membersHint}
      </Empty>
    );
  return <Endpoints />;
}

function Endpoints() {
  const queries = useQueryClient();
  const [address, change] = useAddress<"endpoint" | "state" | "page">();
  const [open, setOpen] = useState<Open>();
  const [secret, setSecret] = useState<string>();
  const endpoints = useQuery({
    queryKey: ["webhooks", "endpoints"],
    queryFn: () =>
      allPages((page) => send(api.GET("/v1/webhooks/endpoints", { params: { query: { page, limit: 100 } } }))),
    refetchInterval: poll(address.endpoint ? liveInterval : summaryInterval),
  });
  const shown = endpoints.data?.find((endpoint) => endpoint.id === address.endpoint);
  const show = (endpoint: Endpoint) => change({ endpoint: endpoint.id, state: "" });
  const sendTest = async (endpoint: Endpoint) => {
    await send(api.POST(`${one}/test`, { params: pathOf(endpoint), body: {} }));
    toast(texts.testSent);
    show(endpoint);
    void queries.invalidateQueries({ queryKey: ["webhooks"] });
  };
  const act = (action: Action, endpoint: Endpoint) => {
    if (action === "log") show(endpoint);
    else if (action === "test") sendTest(endpoint).catch(toastError);
    else setOpen({ action, endpoint });
  };
  const columns = useColumns(act, address.endpoint);
  return (
    <div class="stack">
      <section class="stack" aria-labelledby="webhooks-title">
        <div class="row apart top section-header">
          <div class="grow">
            <h2 id="webhooks-title">{texts.title}</h2>
            <p class="faint">{texts.intro}</p>
          </div>
          <Button kind="primary" icon="plus" onClick={() => setOpen("create")}>
            {texts.create}
          </Button>
        </div>
        <Loaded query={endpoints}>
          {(items) =>
            items.length === 0 ? (
              <Empty icon="activity" title={texts.empty}>
                {texts.emptyHint}
              </Empty>
            ) : (
              <Table
                label={texts.title}
                columns={columns}
                items={items}
                keyOf={(endpoint) => endpoint.id}
                onOpen={show}
                openKey={address.endpoint}
              />
            )
          }
        </Loaded>
      </section>
      {shown && <DeliveryLog key={shown.id} endpoint={shown} address={address} change={change} />}
      {open && <OpenDialog open={open} onSecret={setSecret} onClose={() => setOpen(undefined)} />}
      {secret && (
        <StoreOnceDialog
          title={texts.secretCreated}
          confirmation={texts.secretStored}
          onClose={() => setSecret(undefined)}
        >
          <CodeBlock text={secret} label={texts.secret} />
          <p class="faint">{texts.secretHint}</p>
        </StoreOnceDialog>
      )}
    </div>
  );
}

function useColumns(act: (action: Action, endpoint: Endpoint) => void, shown: string | undefined): Column<Endpoint>[] {
  const [, navigate] = useLocation();
  return [
    {
      id: "url",
      title: texts.url,
      look: "title",
      cell: (endpoint) => (
        <div class="webhook-url">
          <span class="strong">{endpoint.url}</span>
          {endpoint.description && <p class="faint small">{endpoint.description}</p>}
        </div>
      ),
    },
    { id: "events", title: texts.events, cell: (endpoint) => <Types types={endpoint.types} /> },
    { id: "state", title: texts.state, cell: (endpoint) => <State endpoint={endpoint} /> },
    {
      id: "last",
      title: texts.lastDelivery,
      look: "fit",
      cell: ({ id }) => <LastDelivery endpointId={id} live={id === shown} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (endpoint) => (
        <Menu
          label={texts.actions(endpoint.url)}
          items={[
            { label: texts.log, icon: "log", onSelect: () => act("log", endpoint) },
            { label: texts.test, icon: "play", disabled: !endpoint.enabled, onSelect: () => act("test", endpoint) },
            { label: texts.edit, icon: "edit", onSelect: () => act("edit", endpoint) },
            { label: texts.rotate, icon: "refresh", onSelect: () => act("rotate", endpoint) },
            { label: texts.activity, icon: "log", onSelect: () => navigate(`/audit-log?target=${endpoint.id}`) },
            "separator",
            endpoint.enabled
              ? { label: texts.disable, icon: "stop", danger: true, onSelect: () => act("switch", endpoint) }
              : { label: texts.enable, icon: "play", onSelect: () => act("switch", endpoint) },
            { label: texts.delete, icon: "trash", danger: true, onSelect: () => act("delete", endpoint) },
          ]}
        />
      ),
    },
  ];
}

function Types({ types }: { types: Endpoint["types"] }) {
  if (!types) return <span class="faint">{texts.allEvents}</span>;
  return (
    <span class="row">
      {types.map((type) => (
        <Badge key={type}>{type}</Badge>
      ))}
    </span>
  );
}

/** Whether events are sent, and since when attempts fail. */
function State({ endpoint: { enabled, disabledReason, failingSince, oldSecretUntil } }: { endpoint: Endpoint }) {
  const [tone, label] = !enabled
    ? (["bad", texts.disabled] as const)
    : failingSince
      ? (["wait", texts.failing] as const)
      : (["good", texts.enabled] as const);
  return (
    <div>
      <Badge tone={tone}>{label}</Badge>
      {!enabled && disabledReason && <p class="faint small">{texts.disabledReasons[disabledReason]}</p>}
      {failingSince && (
        <p class="faint small">
          {texts.failingSince} <Time at={failingSince} />
        </p>
      )}
      {oldSecretUntil && (
        <p class="faint small">
          {texts.oldSecret} {formatTime(oldSecretUntil)}
        </p>
      )}
    </div>
  );
}

/** The state and the time of the last delivery. An organization has few endpoints. */
function LastDelivery({ endpointId, live }: { endpointId: string; live: boolean }) {
  const last = useDeliveries(endpointId, { limit: 1 }, live ? liveInterval : undefined);
  if (last.data === undefined) return null;
  const [delivery] = last.data.items;
  if (!delivery) return <span class="faint">{texts.never}</span>;
  return (
    <span>
      <StateBadge state={delivery.state} /> <Time at={delivery.lastAttemptAt ?? delivery.createdAt} />
    </span>
  );
}

/** The dialog of an action. */
function OpenDialog({
  open,
  onSecret,
  onClose,
}: {
  open: Open;
  onSecret: (secret: string) => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  if (open === "create") return <EndpointDialog onCreated={onSecret} onClose={onClose} />;
  const { action, endpoint } = open;
  if (action === "edit") return <EndpointDialog endpoint={endpoint} onCreated={onSecret} onClose={onClose} />;
  const params = pathOf(endpoint);
  const actions = {
    rotate: async () => onSecret((await send(api.POST(`${one}/secret/rotate`, { params, body: {} }))).secret),
    switch: () => send(api.PATCH(one, { params, body: { enabled: !endpoint.enabled } })),
    delete: async () => {
      await send(api.DELETE(one, { params }));
      toast(texts.deleted);
    },
  };
  const confirmed = {
    rotate: [texts.rotateTitle, texts.rotate, texts.rotateHint],
    switch: endpoint.enabled
      ? [texts.disableTitle, texts.disable, texts.disableHint]
      : [texts.enableTitle, texts.enable, texts.enableHint],
    delete: [texts.deleteTitle, texts.deleteAction, texts.deleteHint],
  };
  const name = action as keyof typeof actions;
  const [title = "", label = "", hint] = confirmed[name];
  return (
    <ConfirmDialog
      title={title}
      action={label}
      kind={action === "switch" && !endpoint.enabled ? "primary" : "danger"}
      onConfirm={async () => {
        await actions[name]();
        void queries.invalidateQueries({ queryKey: ["webhooks"] });
      }}
      onClose={onClose}
    >
      <p class="webhook-url">{endpoint.url}</p>
      <p>{hint}</p>
    </ConfirmDialog>
  );
}
