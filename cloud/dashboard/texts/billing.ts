const many = (n: number, one: string, more: string) => `${n} ${n === 1 ? one : more}`;

/** The texts of billing. */
export const texts = {
  title: "Billing",
  intro: (organization: string) => `Plan, usage and invoices of ${organization}.`,
  membersTitle: "Only owners and admins can see billing",
  membersHint: "Ask an owner or an admin to change the plan or to raise a limit.",
  seeMembers: "Show owners and admins",

  dismiss: "Dismiss",
  keep: "Cancel",

  plan: "Plan",
  intervals: { month: "month", year: "year" },
  per: (price: string, interval: string) => `${price} per ${interval}`,
  statuses: {
    active: "Active",
    past_due: "Payment failed",
    suspended: "Suspended",
    canceled: "Ended",
  },
  statusHints: {
    past_due: "A payment failed and is tried again. The limits do not change. Check the payment method.",
    suspended: "The limits are reduced until the open invoice is paid or the operator ends the suspension.",
    canceled: "The last paid plan has ended. The organization is on the free plan.",
  },
  period: "Current period",
  periodOf: (from: string, to: string) => `${from} to ${to}`,
  renews: (date: string) => `Renews on ${date}`,
  ends: (date: string) => `Ends on ${date}`,
  since: (date: string) => `Since ${date}`,
  endsTitle: (plan: string, date: string) => `${plan} ends on ${date}`,
  endsHint: "Then the organization returns to the free plan. Nothing is deleted.",
  cancel: "Cancel plan",
  cancelTitle: (plan: string) => `Cancel ${plan}`,
  cancelHint: (date: string) =>
    `The plan stays active until ${date}. Then the organization returns to the free plan with its limits. Nothing is deleted, but items above the limits stop new profiles, launches and invitations. You can resume until then.`,
  cancelAction: "Cancel at the end of the period",
  canceled: (date: string) => `The plan ends on ${date}`,
  resume: "Resume plan",
  resumed: "The plan continues",
  portal: "Payment methods",
  noPortal: "There is no payment provider, so there are no payment methods to manage.",

  usage: "Usage",
  usages: {
    profiles: "Profiles",
    browsers: "Browsers at once",
    members: "Members and invitations",
    apiRpm: "API requests, this minute",
    apiRph: "API requests, this hour",
  },
  apiHint: "API requests are counted for display. No request is rejected.",
  unlimited: "unlimited",
  extra: (base: number, additional: number) => `${base} of the plan + ${additional} of add-ons`,

  plans: "Plans",
  current: "Current plan",
  limits: {
    profileLimit: (n: number | null) =>
      n === null
        ? "Unlimited profiles and browsers"
        : `${many(n, "profile", "profiles")}, ${many(n, "browser", "browsers")} at once`,
    memberLimit: (n: number | null) => (n === null ? "Unlimited members" : many(n, "member", "members")),
    apiRpmLimit: (n: number | null) =>
      n === null ? "Unlimited API requests a minute" : `${n.toLocaleString("en")} API requests a minute`,
    apiRphLimit: (n: number | null) =>
      n === null ? "Unlimited API requests an hour" : `${n.toLocaleString("en")} API requests an hour`,
  },
  hasAddOns: "Add-ons available",
  choose: (plan: string) => `Choose ${plan}`,
  subscribeTitle: (plan: string) => `Subscribe to ${plan}`,
  subscribeHint: (price: string) =>
    `${price}. If this service has a payment provider, you pay on its page; the plan changes when the payment is confirmed.`,
  subscribeAction: "Continue",
  changeTitle: (plan: string) => `Change to ${plan}`,
  changeHint: (price: string) =>
    `${price}. Takes effect immediately. The rest of the current period is credited and charged to the second. Add-ons that the new plan also offers continue; other add-ons end.`,
  freeHint:
    "The paid plan ends immediately, not at the end of the period. The rest of the period is credited. To keep the plan until the period ends, cancel it instead.",
  lowerHint: "A lower limit deletes nothing, but items above it stop new profiles, launches and invitations.",
  withdrawHint: "The scheduled cancellation is withdrawn.",
  changeAction: "Change plan",
  changed: (plan: string) => `The plan is ${plan}`,
  pending: "The payment provider confirms the change. This can take a minute.",
  checkoutTitle: "The payment is being confirmed",
  checkoutHint: "The plan changes when the payment provider confirms the payment. This page updates itself.",
  operatorTitle: "This change is not available here",

  addOns: "Add-ons",
  addOnsHint: "An add-on raises one limit. It is charged with the plan.",
  noAddOns: "This plan has no add-ons. Choose a plan with add-ons to raise single limits.",
  addOn: "Add-on",
  raises: "Raises",
  price: "Price",
  quantity: "Quantity",
  raise: {
    profileLimit: (n: number) => `+${n} profiles and browsers`,
    memberLimit: (n: number) => `+${n} members`,
    apiRpmLimit: (n: number) => `+${n.toLocaleString("en")} API requests a minute`,
    apiRphLimit: (n: number) => `+${n.toLocaleString("en")} API requests an hour`,
  },
  notOffered: "No longer offered",
  buy: "Buy",
  more: "Add more",
  remove: "Remove",
  buyTitle: (name: string) => `Buy ${name}`,
  buyHint: (price: string) =>
    `${price} each. The limit rises immediately, and the rest of the current period is charged to the second.`,
  buyOwned: (quantity: number) => `You have ${quantity}. The new ones are added.`,
  total: (price: string) => `Adds ${price}`,
  buyAction: "Buy",
  bought: (name: string) => `${name} added`,
  removeTitle: (name: string) => `Remove ${name}`,
  removeHint: (quantity: number) =>
    `All ${quantity} are removed and the limit falls immediately. The rest of the period is credited to the second. Existing items above the new limit are not deleted. To keep some, buy the lower quantity again afterwards.`,
  removeAction: "Remove add-on",
  removed: (name: string) => `${name} removed`,
  isUnlimited: "This limit is unlimited already",

  invoices: "Invoices",
  noInvoices: "There are no invoices yet.",
  invoice: (number: string) => `Invoice ${number}`,
  invoiceStatuses: {
    open: "Due",
    paid: "Paid",
    uncollectible: "Not collected",
    void: "Void",
  },
  credit: "Credit",
  openInvoice: "Open invoice",
  line: "Item",
  linePeriod: "Period",
  amount: "Amount",
  subtotal: "Subtotal",
  invoiceTotal: "Total",
  amountDue: "Amount due",
};
