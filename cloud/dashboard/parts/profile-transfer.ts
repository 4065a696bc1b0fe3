import { violation, type Rule } from "../../../shared/web/forms/rules";
import { createProfile } from "../../../gen/web/cloud-rules";
import type { Schema } from "../api";
import { texts } from "../texts/profiles";
import { exportBody } from "./profile-values";

type Profile = Schema<"Profile">;
type CreateBody = Schema<"CreateProfileRequest">;

/** The largest file that can be imported, in bytes. */
export const maxImportBytes = 5_000_000;
/** The largest number of profiles in a file. */
const maxImportProfiles = 1_000;

/** The text of an export file. */
export function exportFile(profiles: readonly Profile[]): string {
  return JSON.stringify({ version: 1, profiles: profiles.map(exportBody) }, null, 2);
}

/** A profile of an import file. `problems` is empty if it can be created. */
export interface ImportRow {
  index: number;
  name: string;
  browserVersion: string;
  body: CreateBody;
  problems: { field: string; message: string }[];
  /** The proxy has a user name, but the file has no password. */
  lacksPassword: boolean;
}

/** Returns the profiles of an import file, or why it cannot be read. */
export function parseImport(text: string): { rows: ImportRow[] } | { error: string } {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    return { error: texts.import.notJson };
  }
  if (!isObject(file)) return { error: texts.import.wrongShape };
  if (file["version"] !== 1) return { error: texts.import.wrongVersion };
  const profiles = file["profiles"];
  if (!Array.isArray(profiles)) return { error: texts.import.wrongShape };
  if (profiles.length === 0) return { error: texts.import.noProfiles };
  if (profiles.length > maxImportProfiles) return { error: texts.import.tooMany(profiles.length, maxImportProfiles) };
  return { rows: profiles.map(rowOf) };
}

function rowOf(entry: unknown, index: number): ImportRow {
  if (!isObject(entry)) {
    const problems = [{ field: "", message: texts.import.notObject }];
    return {
      index,
      name: "",
      browserVersion: "",
      body: {} as CreateBody,
      problems,
      lacksPassword: false,
    };
  }
  const body = normalized(entry);
  const proxy = body["proxy"];
  const problems = problemsOf(createProfile, body, "");
  return {
    index,
    name: String(body["name"] ?? ""),
    browserVersion: String(body["browserVersion"] ?? ""),
    body: body as CreateBody,
    problems,
    lacksPassword: isObject(proxy) && Boolean(proxy["username"]) && !proxy["password"],
  };
}

/** Null and empty lists mean the default, and are left out. */
function normalized(entry: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(entry).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0)),
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const maxEntries = 50;

/** Returns what the API would refuse in a value: its type, unknown fields and the bounds of its rule. */
function problemsOf(rule: Rule, value: Record<string, unknown>, prefix: string): ImportRow["problems"] {
  const found: ImportRow["problems"] = [];
  for (const name of Object.keys(value))
    if (!rule.properties?.[name]) found.push({ field: prefix + name, message: texts.import.unknownField });
  for (const [name, property] of Object.entries(rule.properties ?? {})) {
    const required = rule.required?.includes(name) ?? false;
    found.push(...valueProblems(property, value[name], prefix + name, required));
  }
  return found;
}

function valueProblems(rule: Rule, value: unknown, field: string, required: boolean): ImportRow["problems"] {
  const wrongType = value !== undefined && value !== null && !hasType(rule, value);
  if (wrongType) return [{ field, message: texts.import.wrongType(rule.type ?? "") }];
  const message =
    violation(rule, value, required) ??
    (value === "" && (rule.minLength || rule.enum) ? texts.import.emptyText : undefined);
  if (message) return [{ field, message }];
  if (Array.isArray(value) && rule.items)
    return value.flatMap((item, i) => valueProblems(rule.items!, item, `${field}[${i}]`, true));
  if (!isObject(value)) return [];
  return rule.properties ? problemsOf(rule, value, field + ".") : mapProblems(value, field);
}

/** A map of texts, for example headers. */
function mapProblems(value: Record<string, unknown>, field: string): ImportRow["problems"] {
  if (Object.keys(value).length > maxEntries) return [{ field, message: texts.import.tooManyEntries(maxEntries) }];
  return Object.entries(value)
    .filter(([, inner]) => typeof inner !== "string")
    .map(([key]) => ({
      field: `${field}.${key}`,
      message: texts.import.wrongType("string"),
    }));
}

function hasType(rule: Rule, value: unknown): boolean {
  switch (rule.type) {
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
    case "number":
      return typeof value === "number";
    default:
      return rule.type === undefined || typeof value === rule.type;
  }
}
