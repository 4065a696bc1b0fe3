import type { Schema } from "../api";
import { texts } from "../texts/billing";

/** Returns an amount in the smallest unit (1/100) as money, for example "$29.00". `short` leaves out ".00". */
export function money(cents: number, currency: string, short = false): string {
  return new Intl.NumberFormat("en", {
    style: "currency",
    currency: currency.toUpperCase(),
    trailingZeroDisplay: short ? "stripIfInteger" : "auto",
  }).format(cents / 100);
}

/** Returns the price of a plan, for example "$29 per month". */
export function planPrice(plan: Pick<Schema<"Plan">, "priceCents" | "currency" | "interval">): string {
  return texts.per(money(plan.priceCents, plan.currency, true), texts.intervals[plan.interval]);
}
