import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { api } from "../api";

/** The subscription of the organization; only for owners and admins. */
export function useSubscription(refetchInterval: number) {
  return useQuery({
    queryKey: ["billing", "subscription"],
    refetchInterval,
    queryFn: () => send(api.GET("/v1/billing/subscription")),
  });
}

/** Reads everything again that a change of the subscription can affect. */
export function useBillingRefresh(): () => void {
  const queries = useQueryClient();
  return () => {
    void queries.invalidateQueries({ queryKey: ["billing"] });
    void queries.invalidateQueries({ queryKey: ["stats"] });
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
