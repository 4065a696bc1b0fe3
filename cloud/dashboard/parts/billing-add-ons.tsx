import { useQuery } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, NumberField, useForm } from "../../../shared/web/forms/form";
import { Badge, Button, ConfirmDialog, Dialog, Loaded, Table, toast, type Column } from "../../../shared/web/ui";
import { addAddOn as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/billing";
import { useBillingRefresh, useExplained } from "./billing-changes";
import { money } from "./money";
import { useIdempotencyKey } from "./once";

type Subscription = Schema<"Subscription">;

/** An add-on that the plan offers, or one that the subscription still has. */
type Offer = Schema<"AddOnOffer"> & { offered: boolean };

const effective = {
  profileLimit: "effectiveProfileLimit",
  memberLimit: "effectiveMemberLimit",
  apiRpmLimit: "effectiveApiRpmLimit",
  apiRphLimit: "effectiveApiRphLimit",
} as const;

/** The add-ons: buy, buy more and remove. */
export function BillingAddOns({ subscription }: { subscription: Subscription }) {
  const [dialog, setDialog] = useState<{
    kind: "buy" | "remove";
    offer: Offer;
  }>();
  const addOns = useQuery({
    queryKey: ["billing", "add-ons"],
    queryFn: () => send(api.GET("/v1/billing/add-ons")),
  });
  const close = () => setDialog(undefined);
  const columns = columnsFor(subscription, (kind, offer) => setDialog({ kind, offer }));
  return (
    <section class="stack" aria-labelledby="add-ons-title">
      <div>
        <h2 id="add-ons-title">{texts.addOns}</h2>
        <p class="faint">{texts.addOnsHint}</p>
      </div>
      <Loaded query={addOns}>
        {({ items }) => {
          const offers = withPurchased(items, subscription);
          return offers.length === 0 ? (
            <p>{texts.noAddOns}</p>
          ) : (
            <Table label={texts.addOns} columns={columns} items={offers} keyOf={(o) => o.addOnId ?? o.slug} />
          );
        }}
      </Loaded>
      {dialog?.kind === "buy" && (
        <BuyDialog
          offer={dialog.offer}
          currency={subscription.plan.currency}
          interval={subscription.plan.interval}
          onClose={close}
        />
      )}
      {dialog?.kind === "remove" && <RemoveDialog offer={dialog.offer} onClose={close} />}
    </section>
  );
}

/** Add-ons that the plan no longer offers stay removable. */
function withPurchased(items: Schema<"AddOnOffer">[], subscription: Subscription): Offer[] {
  const others = subscription.addOns.filter((a) => !items.some((i) => i.addOnId === a.id));
  return [
    ...items.map((i) => ({ ...i, offered: true })),
    ...others.map(({ id, ...a }) => ({ ...a, addOnId: id, offered: false })),
  ];
}

function columnsFor(subscription: Subscription, open: (kind: "buy" | "remove", offer: Offer) => void): Column<Offer>[] {
  const { currency, interval } = subscription.plan;
  return [
    {
      id: "name",
      title: texts.addOn,
      look: "title",
      cell: (o) => (
        <span class="row">
          <span class="strong">{o.name}</span>
          {!o.offered && <Badge>{texts.notOffered}</Badge>}
        </span>
      ),
    },
    {
      id: "raises",
      title: texts.raises,
      cell: (o) => texts.raise[o.limit](o.amount),
    },
    {
      id: "price",
      title: texts.price,
      cell: (o) => texts.per(money(o.priceCents, currency, true), texts.intervals[interval]),
    },
    {
      id: "quantity",
      title: texts.quantity,
      cell: (o) => <span class="numeric">{o.quantity}</span>,
    },
    {
      id: "actions",
      title: "",
      look: "fit",
      cell: (o) => {
        const unlimited = subscription[effective[o.limit]] === null;
        return (
          <span class="row end">
            {o.offered && (
              <Button
                size="small"
                disabled={unlimited}
                title={unlimited ? texts.isUnlimited : undefined}
                onClick={() => open("buy", o)}
              >
                {o.quantity > 0 ? texts.more : texts.buy}
              </Button>
            )}
            {o.addOnId && (
              <Button size="small" kind="danger" onClick={() => open("remove", o)}>
                {texts.remove}
              </Button>
            )}
          </span>
        );
      },
    },
  ];
}

function BuyDialog({
  offer,
  currency,
  interval,
  onClose,
}: {
  offer: Offer;
  currency: string;
  interval: Schema<"PlanInterval">;
  onClose: () => void;
}) {
  const refresh = useBillingRefresh();
  const explained = useExplained();
  const idempotency = useIdempotencyKey();
  const price = (quantity: number) =>
    texts.per(money(offer.priceCents * quantity, currency, true), texts.intervals[interval]);
  const form = useForm({
    rule: { ...rule, required: ["addOn", "quantity"] },
    initial: { addOn: offer.slug, quantity: 1 as number | undefined },
    onSubmit: async (values) => {
      const body = values as Schema<"AddAddOnRequest">;
      const changed = await explained(
        send(
          api.POST("/v1/billing/add-ons", {
            params: { header: { "Idempotency-Key": idempotency(body) } },
            body,
          }),
        ),
      );
      if (changed) toast(texts.bought(offer.name));
      refresh();
      onClose();
    },
  });
  return (
    <Dialog title={texts.buyTitle(offer.name)} onClose={onClose}>
      <FormFrame form={form} label={texts.buyTitle(offer.name)}>
        <p>{texts.buyHint(price(1))}</p>
        {offer.quantity > 0 && <p>{texts.buyOwned(offer.quantity)}</p>}
        <NumberField
          form={form}
          name="quantity"
          label={texts.quantity}
          hint={texts.total(price(form.values.quantity || 0))}
        />
        <div class="row end">
          <Button onClick={onClose}>{texts.keep}</Button>
          <Button type="submit" kind="primary" busy={form.busy}>
            {texts.buyAction}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

function RemoveDialog({ offer, onClose }: { offer: Offer; onClose: () => void }) {
  const refresh = useBillingRefresh();
  const explained = useExplained();
  const remove = async () => {
    if (!offer.addOnId) return;
    const changed = await explained(
      send(
        api.DELETE("/v1/billing/add-ons/{addOnId}", {
          params: { path: { addOnId: offer.addOnId } },
        }),
      ),
    );
    if (changed) toast(texts.removed(offer.name));
    refresh();
  };
  return (
    <ConfirmDialog
      title={texts.removeTitle(offer.name)}
      action={texts.removeAction}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>{texts.removeHint(offer.quantity)}</p>
    </ConfirmDialog>
  );
}
