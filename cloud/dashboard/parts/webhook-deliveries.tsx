import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/preact-query";
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import {
  Badge,
  Button,
  CodeBlock,
  Dialog,
  Empty,
  Loaded,
  Menu,
  Pagination,
  Segments,
  Table,
  Time,
  formatTime,
  pageOf,
  toast,
  toastError,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/webhooks";

type Delivery = Schema<"WebhookDelivery">;
type DeliveryState = Schema<"WebhookDeliveryStatus">;
type Address = Partial<Record<"endpoint" | "state" | "page", string>>;

const deliveries = "/v1/webhooks/endpoints/{endpointId}/deliveries";
const tones = { pending: "wait", delivered: "good", failed: "bad" } as const;
const filters = [["", texts.anyState], ...Object.entries(texts.states)] as [string, string][];

/** A page of the deliveries to an endpoint. */
export function useDeliveries(
  endpointId: string,
  query: { page?: number; limit?: number; state?: DeliveryState },
  interval?: number,
) {
  return useQuery({
    queryKey: ["webhooks", endpointId, query],
    queryFn: () => send(api.GET(deliveries, { params: { path: { endpointId }, query } })),
    refetchInterval: interval ? poll(interval) : false,
    placeholderData: keepPreviousData,
  });
}

/** The state of a delivery. */
export function StateBadge({ state }: { state: DeliveryState }) {
  return <Badge tone={tones[state]}>{texts.states[state]}</Badge>;
}

/** The deliveries to an endpoint. */
export function DeliveryLog({
  endpoint,
  address,
  change,
}: {
  endpoint: Schema<"WebhookEndpoint">;
  address: Address;
  change: (changes: Address) => void;
}) {
  const queries = useQueryClient();
  const [opened, setOpened] = useState<Delivery>();
  const state = address.state && address.state in tones ? (address.state as DeliveryState) : undefined;
  const list = useDeliveries(endpoint.id, { page: pageOf(address.page), state }, liveInterval);
  const resend = async ({ id: deliveryId }: Delivery) => {
    await send(
      api.POST(`${deliveries}/{deliveryId}/retry`, {
        params: { path: { endpointId: endpoint.id, deliveryId } },
        body: {},
      }),
    );
    toast(texts.resent);
    void queries.invalidateQueries({ queryKey: ["webhooks"] });
  };
  const columns = columnsOf(endpoint.enabled, setOpened, (delivery) => resend(delivery).catch(toastError));
  return (
    <section class="stack" aria-labelledby="deliveries-title">
      <div class="row apart top section-header">
        <div class="grow">
          <h2 id="deliveries-title" class="webhook-url">
            {texts.logOf(endpoint.url)}
          </h2>
          <p class="faint">{texts.logHint}</p>
        </div>
        <Button icon="close" onClick={() => change({ endpoint: "", state: "" })}>
          {texts.close}
        </Button>
      </div>
      <div class="row">
        <Segments
          label={texts.filter}
          name="delivery-state"
          value={state ?? ""}
          options={filters}
          onChange={(value) => change({ state: value })}
        />
      </div>
      <Loaded query={list}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <Empty icon="log" title={texts.logEmpty}>
              {state ? texts.logNoMatch : texts.logEmptyHint}
            </Empty>
          ) : (
            <div>
              <Table
                label={texts.log}
                columns={columns}
                items={items}
                keyOf={(delivery) => delivery.id}
                onOpen={setOpened}
              />
              <Pagination info={pagination} onPage={(page) => change({ page: String(page) })} />
            </div>
          )
        }
      </Loaded>
      {opened && <DeliveryDialog delivery={opened} onClose={() => setOpened(undefined)} />}
    </section>
  );
}

function columnsOf(
  enabled: boolean,
  show: (delivery: Delivery) => void,
  resend: (delivery: Delivery) => void,
): Column<Delivery>[] {
  return [
    { id: "type", title: texts.event, look: "title", cell: ({ type }) => <span class="strong nowrap">{type}</span> },
    { id: "state", title: texts.state, look: "fit", cell: ({ state }) => <StateBadge state={state} /> },
    { id: "response", title: texts.response, cell: (delivery) => <Response delivery={delivery} /> },
    { id: "attempts", title: texts.attempts, look: "end fit", cell: ({ attempts }) => attempts },
    { id: "duration", title: texts.duration, look: "end fit", cell: ({ durationMs }) => durationOf(durationMs) },
    {
      id: "next",
      title: texts.nextAttempt,
      look: "fit",
      cell: (d) => <Time at={d.nextAttemptAt} never={texts.never} />,
    },
    { id: "created", title: texts.created, look: "fit", cell: ({ createdAt }) => <Time at={createdAt} /> },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (delivery) => (
        <Menu
          label={texts.deliveryActions(delivery.type, delivery.id)}
          items={[
            { label: texts.show, icon: "eye", onSelect: () => show(delivery) },
            { label: texts.resend, icon: "refresh", disabled: !enabled, onSelect: () => resend(delivery) },
          ]}
        />
      ),
    },
  ];
}

const durationOf = (ms: number | null) => (ms === null ? "" : texts.milliseconds(ms));

/** The status of the response, or why there was none. */
function Response({ delivery: { responseStatus, error } }: { delivery: Delivery }) {
  return (
    <div>
      {responseStatus ?? error}
      {responseStatus === null && error?.endsWith("is not public") && <p class="faint small">{texts.notPublic}</p>}
    </div>
  );
}

function DeliveryDialog({ delivery, onClose }: { delivery: Delivery; onClose: () => void }) {
  const timeOf = (at: string | null) => (at ? formatTime(at) : texts.never);
  const facts = [
    [texts.state, <StateBadge key="state" state={delivery.state} />],
    [texts.response, <Response key="response" delivery={delivery} />],
    [texts.attempts, delivery.attempts],
    [texts.duration, durationOf(delivery.durationMs) || texts.never],
    [texts.created, timeOf(delivery.createdAt)],
    [texts.lastAttempt, timeOf(delivery.lastAttemptAt)],
    [texts.nextAttempt, timeOf(delivery.nextAttemptAt)],
    [texts.eventId, <code key="id">{delivery.eventId}</code>],
  ] as const;
  return (
    <Dialog title={texts.deliveryTitle(delivery.type)} kind="wide" onClose={onClose}>
      <dl class="facts">
        {facts.map(([label, value]) => (
          <Fragment key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
      </dl>
      {delivery.data ? (
        <CodeBlock text={JSON.stringify(delivery.data, null, 2)} label={texts.payload} />
      ) : (
        <p class="faint">{texts.noPayload}</p>
      )}
    </Dialog>
  );
}
