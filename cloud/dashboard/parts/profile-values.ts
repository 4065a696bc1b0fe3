import { linesOf } from "../../../shared/web/forms/lines";
import type { Schema } from "../api";
import { networkRules, networkValues, type NetworkValues } from "../../../shared/web/forms/network-values";

type Profile = Schema<"Profile">;
type CreateBody = Schema<"CreateProfileRequest">;
type Json = Record<string, unknown>;

/** The values of the profile form. Empty texts and undefined values use the default of the browser. */
export type ProfileValues = {
  name: string;
  notes: string;
  tags: string[];
  browserVersion: number | undefined;
  os: string | undefined;
  osVersion: string;
  windowsVersion: string | undefined;
  osArch: string | undefined;
  model: string;
  renderer: string;
  gpuName: string;
  userAgent: string;
  locale: string;
  timezoneId: string;
  colorScheme: string | undefined;
  viewport: SizeValues;
  screen: SizeValues;
  deviceScaleFactor: number | undefined;
  isMobile: Flag;
  hasTouch: Flag;
  geolocation: {
    latitude: number | undefined;
    longitude: number | undefined;
    accuracy: number | undefined;
  };
  permissions: string[];
  extraHTTPHeaders: Record<string, string>;
  ignoreHTTPSErrors: Flag;
  proxy: {
    server: string;
    bypass: string;
    username: string;
    password: string;
    removePassword: boolean;
  };
  /** One switch per line. */
  args: string;
  /** One URL per line. */
  startUrls: string;
  record: string[];
  idleTimeoutSeconds: number | undefined;
  maxDurationSeconds: number | undefined;
  /** PEM, one after the other. */
  caCertificates: string;
  clientCertificates: ClientCertificateValues[];
  network: NetworkValues;
  persist: boolean;
  metadata: Record<string, string>;
};

/** A client certificate that was added, or a stored one, which has a subject but no key. */
export type ClientCertificateValues = Schema<"ClientCertificate"> & Partial<Schema<"ProfileClientCertificate">>;

type SizeValues = { width: number | undefined; height: number | undefined };
type Flag = "true" | "false" | undefined;

const flagOf = (flag: boolean | null | undefined): Flag =>
  flag === null || flag === undefined ? undefined : flag ? "true" : "false";

const sizeOf = (size: { width: number; height: number } | null | undefined): SizeValues => ({
  width: size?.width,
  height: size?.height,
});

/** Returns the form values of a profile, or those of a new profile with a browser version. */
export function profileValues(from: Partial<Profile> & { browserVersion?: number }): ProfileValues {
  return {
    name: from.name ?? "",
    notes: from.notes ?? "",
    tags: from.tags ?? [],
    browserVersion: from.browserVersion,
    os: from.os ?? undefined,
    osVersion: from.osVersion ?? "",
    windowsVersion: from.windowsVersion ?? undefined,
    osArch: from.osArch ?? undefined,
    model: from.model ?? "",
    renderer: from.renderer ?? "",
    gpuName: from.gpuName ?? "",
    userAgent: from.userAgent ?? "",
    locale: from.locale ?? "",
    timezoneId: from.timezoneId ?? "",
    colorScheme: from.colorScheme ?? undefined,
    viewport: sizeOf(from.viewport),
    screen: sizeOf(from.screen),
    deviceScaleFactor: from.deviceScaleFactor ?? undefined,
    isMobile: flagOf(from.isMobile),
    hasTouch: flagOf(from.hasTouch),
    geolocation: {
      latitude: from.geolocation?.latitude,
      longitude: from.geolocation?.longitude,
      accuracy: from.geolocation?.accuracy,
    },
    permissions: from.permissions ?? [],
    extraHTTPHeaders: from.extraHTTPHeaders ?? {},
    ignoreHTTPSErrors: flagOf(from.ignoreHTTPSErrors),
    proxy: {
      server: from.proxy?.server ?? "",
      bypass: from.proxy?.bypass ?? "",
      username: from.proxy?.username ?? "",
      password: "",
      removePassword: false,
    },
    args: (from.args ?? []).join("\n"),
    startUrls: (from.startUrls ?? []).join("\n"),
    record: from.record ?? [],
    idleTimeoutSeconds: from.idleTimeoutSeconds ?? undefined,
    maxDurationSeconds: from.maxDurationSeconds ?? undefined,
    caCertificates: (from.caCertificates ?? []).join("\n"),
    clientCertificates: from.clientCertificates ?? [],
    network: networkValues(from.network),
    persist: from.persist ?? false,
    metadata: from.metadata ?? {},
  };
}

/** Whether nothing is in it: undefined, null, or an empty text, list or object. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function withoutEmpties(values: Json): Json {
  return Object.fromEntries(Object.entries(values).filter(([, v]) => !isEmpty(v)));
}

const booleanOf = (flag: Flag): boolean | undefined => (flag === undefined ? undefined : flag === "true");

/** Returns the certificates of a text, with what is before each of them. */
const certificatesOf = (text: string): string[] =>
  text
    .split(/(?<=-----END CERTIFICATE-----)/)
    .map((part) => part.trim())
    .filter(Boolean);

/** Returns the body of createProfile: all values that are not empty. */
export function createBody(values: ProfileValues): CreateBody {
  const { password, removePassword: _, ...proxy } = values.proxy;
  const trimmed = Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      typeof value === "string" && key !== "notes" ? value.trim() : value,
    ]),
  );
  return withoutEmpties({
    ...trimmed,
    windowsVersion: values.os === "windows" ? values.windowsVersion : undefined,
    viewport: withoutEmpties(values.viewport),
    screen: withoutEmpties(values.screen),
    geolocation: withoutEmpties(values.geolocation),
    isMobile: booleanOf(values.isMobile),
    hasTouch: booleanOf(values.hasTouch),
    ignoreHTTPSErrors: booleanOf(values.ignoreHTTPSErrors),
    proxy: withoutEmpties({
      server: proxy.server.trim(),
      bypass: proxy.bypass.trim(),
      username: proxy.username.trim(),
      password,
    }),
    args: linesOf(values.args),
    startUrls: linesOf(values.startUrls),
    caCertificates: certificatesOf(values.caCertificates),
    clientCertificates: values.clientCertificates.map(({ subject: _, expiresAt: __, ...sent }) => withoutEmpties(sent)),
    network: networkRules(values.network),
    persist: values.persist || undefined,
  }) as CreateBody;
}

/**
 * Returns the body of createProfile for a stored profile. It has neither an id nor the proxy password, and no client
 * certificates, because their keys are not known.
 */
export const exportBody = (profile: Profile): CreateBody =>
  createBody({ ...profileValues(profile), clientCertificates: [] });

/** What a patch sends to clear a field. Other fields are cleared by null. */
const cleared: Json = {
  notes: "",
  tags: [],
  permissions: [],
  args: [],
  startUrls: [],
  record: [],
  caCertificates: [],
  clientCertificates: [],
  extraHTTPHeaders: {},
  metadata: {},
  persist: false,
};

/** Whether two JSON values are equal; the order of keys does not matter. */
export function equal(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => equal((a as Json)[key], (b as Json)[key]));
}

/** Returns the body of updateProfile: what differs from the base, and an empty object if nothing does. */
export function patchBody(base: Profile, values: ProfileValues): Json {
  const before = createBody(profileValues(base)) as Json;
  const after = createBody(values) as Json;
  const patch: Json = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (key === "proxy" || equal(before[key], after[key])) continue;
    patch[key] = after[key] ?? (key in cleared ? cleared[key] : null);
  }
  const proxy = proxyPatch(
    before["proxy"] as Json | undefined,
    after["proxy"] as Json | undefined,
    values.proxy.removePassword,
  );
  return proxy === undefined ? patch : { ...patch, proxy };
}

/** The proxy is merged field by field; null removes it. */
function proxyPatch(
  before: Json | undefined,
  after: Json | undefined,
  removePassword: boolean,
): Json | null | undefined {
  if (!after) return before ? null : undefined;
  const patch: Json = {};
  for (const key of ["server", "bypass", "username"]) if (before?.[key] !== after[key]) patch[key] = after[key] ?? null;
  if (!before) for (const key of Object.keys(patch)) if (patch[key] === null) delete patch[key];
  if (after["password"]) patch["password"] = after["password"];
  else if (before && removePassword) patch["password"] = null;
  return Object.keys(patch).length > 0 ? patch : undefined;
}

/**
 * Returns the patch for another version of the profile. If that has another proxy, the patch has all fields of the
 * proxy: a password must not go to a server for which it was not entered.
 */
export function rebased(patch: Json, target: Profile, values: ProfileValues): Json {
  const proxy = createBody(values).proxy;
  if (!patch["proxy"] || !proxy || target.proxy?.server === proxy.server) return patch;
  return { ...patch, proxy };
}

/** A field that another client changed, as JSON without empty values. */
export interface Change {
  field: string;
  before: unknown;
  now: unknown;
  /** Whether the form changes the field, too. */
  both: boolean;
}

/** Returns the fields in which two versions of a profile differ. */
export function changesBetween(before: Profile, now: Profile, patch: Json): Change[] {
  const a = comparable(before);
  const b = comparable(now);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter((field) => !equal(a[field], b[field]))
    .map((field) => ({
      field,
      before: a[field],
      now: b[field],
      both: field in patch,
    }));
}

function comparable(profile: Profile): Json {
  const { proxy, clientCertificates } = profile;
  return withoutEmpties({ ...exportBody(profile), proxy, clientCertificates });
}
