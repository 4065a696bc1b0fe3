import { linesOf } from "../../../shared/web/forms/lines";
import { networkRules, networkValues, type NetworkValues } from "../../../shared/web/forms/network-values";
import { withScheme } from "../../../shared/web/ui";
import type { Schema } from "../api";

type Fields = Record<string, unknown>;

/** The input of the form. Lists of texts are one text with a line for each. */
export type LaunchValues = {
  source: "spec" | "profile";
  profileId: string;
  spec: Fields;
  browser: Fields & { network: NetworkValues };
  proxy: "keep" | "none" | "custom";
  proxyOverride: Fields;
};

/** The input of an empty form. */
export function emptyLaunch(profileId = ""): LaunchValues {
  return {
    source: profileId ? "profile" : "spec",
    profileId,
    spec: {},
    browser: { headless: true, network: networkValues(undefined) },
    proxy: "keep",
    proxyOverride: {},
  };
}

/** Returns the value without empty texts, lists and objects; undefined if nothing is left. */
function pruned(value: unknown): unknown {
  if (Array.isArray(value)) return value.length > 0 ? value : undefined;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value)
      .map(([name, inner]) => [name, pruned(inner)] as const)
      .filter(([, inner]) => inner !== undefined);
    return entries.length > 0 ? Object.fromEntries(entries) : undefined;
  }
  return value === "" ? undefined : value;
}

/** Returns the URLs of a text, separated by spaces, with https:// where the user typed no scheme. */
const urls = (text: unknown): string[] =>
  typeof text === "string" ? text.split(/\s+/).filter(Boolean).map(withScheme) : [];

const lines = (text: unknown): string[] => (typeof text === "string" ? linesOf(text) : []);

/** Returns the request body. */
export function requestOf(values: LaunchValues): Fields {
  const { spec, browser } = values;
  const version = spec["browserVersion"];
  const request: Fields =
    values.source === "profile"
      ? { profileId: values.profileId.trim() }
      : {
          spec:
            pruned({
              ...spec,
              browserVersion: version ? Number(version) : undefined,
              ignoreHTTPSErrors: spec["ignoreHTTPSErrors"] || undefined,
            }) ?? {},
        };
  const network = networkRules(browser.network); // not pruned: an empty list allows nothing
  const rest = pruned({
    ...browser,
    network: undefined,
    startUrls: urls(browser["startUrls"]),
    record: browser["record"] ? ["video", "events"] : undefined,
    args: lines(browser["args"]),
    keepAlive: browser["keepAlive"] || undefined,
    keepFiles: browser["keepFiles"] || undefined,
  });
  request["browser"] = network ? Object.assign(rest ?? {}, { network }) : rest;
  if (values.proxy === "none") request["proxyOverride"] = null;
  if (values.proxy === "custom") request["proxyOverride"] = pruned(values.proxyOverride) ?? {};
  return request;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether the text is a UUID. */
export const isUuid = (text: string): boolean => uuid.test(text.trim());

/** Returns a curl command for the request, without the password of the proxy. */
export function curlOf(request: Fields): string {
  const proxy = request["proxyOverride"] as Fields | null | undefined;
  const shown = proxy?.["password"] ? { ...request, proxyOverride: { ...proxy, password: "PASSWORD" } } : request;
  const body = JSON.stringify(shown, null, 2).replaceAll("'", "'\\''");
  return [
    `curl -X POST ${new URL("sessions/profile", document.baseURI).href} \\`,
    `  -H "X-API-Key: $WORKER_KEY" -H "Content-Type: application/json" \\`,
    `  -d '${body}'`,
  ].join("\n");
}

/** The request as the API types it. */
export type LaunchRequest = Schema<"LaunchProfileRequest">;
