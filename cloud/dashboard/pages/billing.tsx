import { useState } from "preact/hooks";
import { Button, ButtonLink, Empty, Loaded, Notice, useAddress } from "../../../shared/web/ui";
import { BillingAddOns } from "../parts/billing-add-ons";
import { Refusal, isPaid, useSubscription } from "../parts/billing-changes";
import { BillingInvoices } from "../parts/billing-invoices";
import { BillingPlan } from "../parts/billing-plan";
import { BillingPlans } from "../parts/billing-plans";
import { BillingUsage } from "../parts/billing-usage";
import { useManages, useSession } from "../session";
import { texts } from "../texts/billing";
import "./billing.css";

/** The plan, the usage, the add-ons and the invoices of the organization. */
export default function Page() {
  const { organization } = useSession();
  const manages = useManages();
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.intro(organization.name)}</p>
        </div>
      </div>
      {manages ? (
        <Billing />
      ) : (
        <Empty
          icon="card"
          title={texts.membersTitle}
          action={<ButtonLink to="/settings/members">{texts.seeMembers}</ButtonLink>}
        >
          {texts.membersHint}
        </Empty>
      )}
    </>
  );
}

function Billing() {
  const [{ checkout }, change] = useAddress<"checkout">();
  const [refusal, setRefusal] = useState<string>();
  const subscription = useSubscription(checkout !== undefined);
  return (
    <Refusal.Provider value={setRefusal}>
      <Loaded query={subscription} lines={6}>
        {(found) => (
          <div class="stack billing">
            {checkout && !isPaid(found) && (
              <Notice
                title={texts.checkoutTitle}
                action={
                  <Button
                    kind="quiet"
                    icon="close"
                    size="small"
                    aria-label={texts.dismiss}
                    onClick={() => change({ checkout: "" }, true)}
                  />
                }
              >
                {texts.checkoutHint}
              </Notice>
            )}
            {refusal && (
              <Notice
                title={texts.operatorTitle}
                action={
                  <Button
                    kind="quiet"
                    icon="close"
                    size="small"
                    aria-label={texts.dismiss}
                    onClick={() => setRefusal(undefined)}
                  />
                }
              >
                {refusal}
              </Notice>
            )}
            <div class="columns billing-top">
              <BillingPlan subscription={found} />
              <BillingUsage subscription={found} />
            </div>
            <BillingPlans subscription={found} />
            <BillingAddOns subscription={found} />
            <BillingInvoices />
          </div>
        )}
      </Loaded>
    </Refusal.Provider>
  );
}
