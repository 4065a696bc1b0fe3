import { useMutation } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Badge, Button, ConfirmDialog, Notice, formatDate, toast, toastError, type Tone } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/billing";
import { isPaid, useBillingRefresh, useExplained } from "./billing-changes";
import { planPrice } from "./money";

type Subscription = Schema<"Subscription">;

const tones: Record<Schema<"SubscriptionStatus">, Tone | undefined> = {
  active: "good",
  past_due: "wait",
  suspended: "bad",
  canceled: undefined,
};

/** The plan, its status and its period, with the actions on them. */
export function BillingPlan({ subscription }: { subscription: Subscription }) {
  const { plan, status, cancelAtPeriodEnd, currentPeriodEnd } = subscription;
  return (
    <section class="panel stack" aria-labelledby="plan-title">
      <div class="row apart">
        <h2 id="plan-title">{texts.plan}</h2>
        <Badge tone={tones[status]} dot>
          {texts.statuses[status]}
        </Badge>
      </div>
      <div class="row apart top">
        <div>
          <p class="plan-name">{plan.name}</p>
          <p class="faint">{planPrice(plan)}</p>
          <Period subscription={subscription} />
        </div>
        <PlanActions subscription={subscription} />
      </div>
      {status !== "active" && <Notice tone={tones[status] ?? "accent"}>{texts.statusHints[status]}</Notice>}
      {cancelAtPeriodEnd && currentPeriodEnd && (
        <Notice tone="wait" title={texts.endsTitle(plan.name, formatDate(currentPeriodEnd))}>
          {texts.endsHint}
        </Notice>
      )}
    </section>
  );
}

function Period({ subscription }: { subscription: Subscription }) {
  const { currentPeriodStart, currentPeriodEnd, cancelAtPeriodEnd } = subscription;
  if (!currentPeriodStart || !currentPeriodEnd)
    return <p class="faint">{texts.since(formatDate(subscription.createdAt))}</p>;
  const end = formatDate(currentPeriodEnd);
  return (
    <p class="faint">
      {texts.period}: {texts.periodOf(formatDate(currentPeriodStart), end)}.{" "}
      {cancelAtPeriodEnd ? texts.ends(end) : texts.renews(end)}
    </p>
  );
}

function PlanActions({ subscription }: { subscription: Subscription }) {
  const { plan, status, currentPeriodEnd, cancelAtPeriodEnd } = subscription;
  const [canceling, setCanceling] = useState(false);
  const refresh = useBillingRefresh();
  const explained = useExplained();
  const paid = isPaid(subscription);
  const end = currentPeriodEnd ? formatDate(currentPeriodEnd) : "";
  const cancel = async () => {
    if (!(await explained(send(api.POST("/v1/billing/cancel"))))) return;
    toast(texts.canceled(end));
    refresh();
  };
  return (
    <div class="row">
      {(paid || status === "canceled") && <Portal />}
      {paid && currentPeriodEnd && !cancelAtPeriodEnd && (
        <Button onClick={() => setCanceling(true)}>{texts.cancel}</Button>
      )}
      {cancelAtPeriodEnd && <Resume />}
      {canceling && (
        <ConfirmDialog
          title={texts.cancelTitle(plan.name)}
          action={texts.cancelAction}
          onConfirm={cancel}
          onClose={() => setCanceling(false)}
        >
          <p>{texts.cancelHint(end)}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function Resume() {
  const refresh = useBillingRefresh();
  const explained = useExplained();
  const resume = useMutation({
    mutationFn: () => explained(send(api.POST("/v1/billing/resume"))),
    onSuccess: (done) => {
      if (done) toast(texts.resumed);
      refresh();
    },
    onError: toastError,
  });
  return (
    <Button kind="primary" busy={resume.isPending} onClick={() => resume.mutate()}>
      {texts.resume}
    </Button>
  );
}

/** Opens the page of the payment provider for payment methods. */
function Portal() {
  const [none, setNone] = useState(false);
  const open = useMutation({
    mutationFn: () =>
      send(
        api.POST("/v1/billing/portal", {
          body: { returnUrl: new URL("billing", document.baseURI).href },
        }),
      ),
    onSuccess: ({ url }) => {
      if (url) location.assign(url);
      else setNone(true);
    },
    onError: toastError,
  });
  if (none) return <p class="faint">{texts.noPortal}</p>;
  return (
    <Button icon="card" busy={open.isPending} onClick={() => open.mutate()}>
      {texts.portal}
    </Button>
  );
}
