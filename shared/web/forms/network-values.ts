import type { components } from "../../../gen/web/cloud";
import { linesOf } from "./lines";

/** Rules as the cloud stores them, and as a launch has them. */
export type NetworkRules = NonNullable<components["schemas"]["StoredNetworkRules"]>;

/** The form values of network rules. */
export type NetworkValues = {
  navigate: {
    /** Empty: no filter; web: all pages of http and https; list: only those of `allow`. */
    only: "web" | "list" | undefined;
    /** One pattern per line. */
    allow: string;
    ask: string;
    deny: string;
  };
  connect: { only: "list" | undefined; allow: string; deny: string };
  methods: { readOnly: boolean };
  block: string[];
  uploads: "deny" | undefined;
  downloads: "deny" | undefined;
  maxMegabytes: number | undefined;
  maxRequestsPerMinute: number | undefined;
};

const bytesPerMegabyte = 1_000_000;
const textOf = (patterns: readonly string[] | undefined) => (patterns ?? []).join("\n");
const denyOf = (rule: string | undefined) => (rule === "deny" ? rule : undefined);

/** Returns the form values of stored rules. */
export function networkValues(rules: NetworkRules | null | undefined): NetworkValues {
  const { navigate, connect } = rules ?? {};
  return {
    navigate: {
      only: navigate ? (navigate.allow ? "list" : "web") : undefined,
      allow: textOf(navigate?.allow),
      ask: textOf(navigate?.ask),
      deny: textOf(navigate?.deny),
    },
    connect: {
      only: connect?.allow ? "list" : undefined,
      allow: textOf(connect?.allow),
      deny: textOf(connect?.deny),
    },
    methods: { readOnly: rules?.methods?.readOnly ?? false },
    block: rules?.block ?? [],
    uploads: denyOf(rules?.uploads),
    downloads: denyOf(rules?.downloads),
    maxMegabytes: rules?.maxBytes === undefined ? undefined : rules.maxBytes / bytesPerMegabyte,
    maxRequestsPerMinute: rules?.maxRequestsPerMinute,
  };
}

/** Returns the rules without what allows everything; undefined if nothing is left. */
export function networkRules(values: NetworkValues): NetworkRules | undefined {
  const { navigate, connect, maxMegabytes } = values;
  const listed = (text: string) => (linesOf(text).length > 0 ? linesOf(text) : undefined);
  const rules: NetworkRules = withoutUndefined({
    navigate: navigate.only && {
      allow: navigate.only === "list" ? linesOf(navigate.allow) : undefined,
      ask: listed(navigate.ask),
      deny: listed(navigate.deny),
    },
    connect:
      connect.only || listed(connect.deny)
        ? { allow: connect.only && linesOf(connect.allow), deny: listed(connect.deny) }
        : undefined,
    methods: values.methods.readOnly ? values.methods : undefined,
    block: values.block.length > 0 ? values.block : undefined,
    uploads: values.uploads,
    downloads: values.downloads,
    maxBytes: maxMegabytes === undefined ? undefined : Math.round(maxMegabytes * bytesPerMegabyte),
    maxRequestsPerMinute: values.maxRequestsPerMinute,
  });
  return Object.keys(rules).length > 0 ? rules : undefined;
}

/** Returns the value as JSON has it: without undefined values. */
const withoutUndefined = (value: object): NetworkRules => JSON.parse(JSON.stringify(value)) as NetworkRules;
