import { useQuery } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Badge, Button, ConfirmDialog, Loaded, toast } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/billing";
import { useBillingRefresh, useExplained } from "./billing-changes";
import { planPrice } from "./money";
import { useIdempotencyKey } from "./once";
import { allPages } from "./team";
import "./lists.css";

type Plan = Schema<"Plan">;
type Subscription = Schema<"Subscription">;

const limits = ["profileLimit", "memberLimit", "apiRpmLimit", "apiRphLimit"] as const;

/** The plans, with the change to each. */
export function BillingPlans({ subscription }: { subscription: Subscription }) {
  const [chosen, setChosen] = useState<Plan>();
  const plans = useQuery({
    queryKey: ["billing", "plans"],
    staleTime: 60_000,
    queryFn: () =>
      allPages((page) =>
        send(
          api.GET("/v1/plans", {
            params: {
              query: { page, limit: 100, sortBy: "position", sortOrder: "asc" },
            },
          }),
        ),
      ),
  });
  return (
    <section class="stack" aria-labelledby="plans-title">
      <h2 id="plans-title">{texts.plans}</h2>
      <Loaded query={plans}>
        {(all) => (
          <ul class="plans">
            {all.map((plan) => (
              <li key={plan.id} class="panel">
                <PlanCard plan={plan} current={plan.slug === subscription.plan.slug} onChoose={() => setChosen(plan)} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {chosen && <PlanDialog plan={chosen} subscription={subscription} onClose={() => setChosen(undefined)} />}
    </section>
  );
}

function PlanCard({ plan, current, onChoose }: { plan: Plan; current: boolean; onChoose: () => void }) {
  return (
    <>
      <h3>{plan.name}</h3>
      <p class="plan-price">{planPrice(plan)}</p>
      <ul class="plain-list grow small">
        {limits.map((limit) => (
          <li key={limit}>{texts.limits[limit](plan[limit])}</li>
        ))}
        {plan.addOns.length > 0 && <li>{texts.hasAddOns}</li>}
      </ul>
      {current ? (
        <p>
          <Badge tone="accent">{texts.current}</Badge>
        </p>
      ) : (
        <Button wide onClick={onChoose}>
          {texts.choose(plan.name)}
        </Button>
      )}
    </>
  );
}

/** Asks before a plan change. From a free plan, the user may have to pay on the page of the provider. */
function PlanDialog({ plan, subscription, onClose }: { plan: Plan; subscription: Subscription; onClose: () => void }) {
  const change = useChange(plan);
  const checkout = subscription.plan.priceCents === 0 && plan.priceCents > 0;
  const toFree = plan.priceCents === 0;
  const price = planPrice(plan);
  return (
    <ConfirmDialog
      kind={toFree ? "danger" : "primary"}
      title={checkout ? texts.subscribeTitle(plan.name) : texts.changeTitle(plan.name)}
      action={checkout ? texts.subscribeAction : texts.changeAction}
      onConfirm={() => change(checkout)}
      onClose={onClose}
    >
      <div class="stack tight">
        <p>{checkout ? texts.subscribeHint(price) : toFree ? texts.freeHint : texts.changeHint(price)}</p>
        {!checkout && <p class="faint">{texts.lowerHint}</p>}
        {!checkout && subscription.cancelAtPeriodEnd && <p class="faint">{texts.withdrawHint}</p>}
      </div>
    </ConfirmDialog>
  );
}

function useChange(plan: Plan): (checkout: boolean) => Promise<void> {
  const refresh = useBillingRefresh();
  const explained = useExplained();
  const idempotency = useIdempotencyKey();
  const report = (subscription: Subscription) =>
    toast(subscription.plan.slug === plan.slug ? texts.changed(plan.name) : texts.pending);
  return async (checkout) => {
    const header = { "Idempotency-Key": idempotency([checkout, plan.slug]) };
    if (checkout) {
      const returnUrl = new URL("billing?checkout=done", document.baseURI).href;
      const started = await explained(
        send(
          api.POST("/v1/billing/checkout", {
            params: { header },
            body: { plan: plan.slug, returnUrl },
          }),
        ),
      );
      if (started?.url) {
        location.assign(started.url);
        // The page is about to be left: the dialog must not offer the change again.
        await new Promise(() => undefined);
      }
      if (started) report(started.subscription);
    } else {
      const changed = await explained(
        send(
          api.POST("/v1/billing/change-plan", {
            params: { header },
            body: { plan: plan.slug },
          }),
        ),
      );
      if (changed) report(changed);
    }
    refresh();
  };
}
