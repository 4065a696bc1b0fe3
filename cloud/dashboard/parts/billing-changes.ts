import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { liveInterval, poll, summaryInterval } from "../../../shared/web/api/query";
import { api, type Schema } from "../api";

/** Whether the plan of the subscription has a price. */
export const isPaid = (subscription: Schema<"Subscription"> | undefined): boolean =>
  (subscription?.plan.priceCents ?? 0) > 0;

/** The subscription of the organization; only for owners and admins. */
export function useSubscription(awaitsPayment: boolean) {
  return useQuery({
    queryKey: ["billing", "subscription"],
    // After a checkout, the plan changes when the payment provider reports the payment.
    refetchInterval: (query) =>
      poll(awaitsPayment && !isPaid(query.state.data) ? liveInterval : summaryInterval)(query),
    queryFn: () => send(api.GET("/v1/billing/subscription")),
  });
}

/** Reads everything again that a change of the subscription can affect. */
export function useBillingRefresh(): () => void {
  const queries = useQueryClient();
  return () => {
    for (const key of ["billing", "license-usage"]) void queries.invalidateQueries({ queryKey: [key] });
    void queries.invalidateQueries({ queryKey: ["profiles", "stats"] });
  };
}

/** Explains on the page that this service does not allow a change. */
export const Refusal = createContext<(message: string) => void>(() => undefined);

/** Makes a change. A refusal (403) is an explanation on the page and not an error of the dialog. */
export function useExplained(): <T>(change: Promise<T>) => Promise<T | undefined> {
  const explain = useContext(Refusal);
  return async (change) => {
    try {
      return await change;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      explain(error.message);
      return undefined;
    }
  };
}
