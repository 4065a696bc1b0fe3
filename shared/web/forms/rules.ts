/** The bounds of a value, generated from the API documents (gen/web/*-rules.ts). */
export interface Rule {
  readonly type?: string;
  readonly format?: string;
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly nullable?: boolean;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly items?: Rule;
  readonly required?: readonly string[];
  readonly properties?: { readonly [name: string]: Rule };
}

/** Returns the rule of a field such as `proxy.server` or `tags[2]`. */
export function ruleAt(rule: Rule, field: string): Rule | undefined {
  let at: Rule | undefined = rule;
  for (const part of field.split(/[.[\]]/).filter(Boolean)) {
    at = /^\d+$/.test(part) ? at?.items : at?.properties?.[part];
  }
  return at;
}

/** Returns the message of the first bound that the value breaks; undefined if it is valid. */
export function violation(rule: Rule, value: unknown, required: boolean): string | undefined {
  if (value === undefined || value === null || value === "") return required ? "Enter a value." : undefined;
  if (typeof value === "string") return textViolation(rule, value);
  if (typeof value === "number") return numberViolation(rule, value);
  if (Array.isArray(value)) {
    if (rule.minItems && value.length < rule.minItems) return `Add at least ${rule.minItems}.`;
    if (rule.maxItems !== undefined && value.length > rule.maxItems) return `Use at most ${rule.maxItems} entries.`;
  }
  return undefined;
}

function textViolation(rule: Rule, value: string): string | undefined {
  const length = [...value].length;
  if (rule.enum && !rule.enum.includes(value)) return `Use one of: ${rule.enum.filter((v) => v !== null).join(", ")}.`;
  if (rule.minLength !== undefined && length < rule.minLength) return `Use at least ${rule.minLength} characters.`;
  if (rule.maxLength !== undefined && length > rule.maxLength) return `Use at most ${rule.maxLength} characters.`;
  if (rule.format === "email" && !/^[^\s@]+@[^\s@]+$/.test(value)) return "Enter an e-mail address.";
  if (rule.format === "uri" && !URL.canParse(value)) return "Enter a URL, for example https://example.com.";
  if (rule.pattern && rule.format !== "password" && !matches(rule.pattern, value))
    return "This value has the wrong format.";
  return undefined;
}

/** The patterns are those of Go, of which few have no meaning in a browser. The server decides on those. */
function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function numberViolation(rule: Rule, value: number): string | undefined {
  if (Number.isNaN(value)) return "Enter a number.";
  if (rule.type === "integer" && !Number.isInteger(value)) return "Enter a whole number.";
  if (rule.minimum !== undefined && value < rule.minimum) return `Enter ${rule.minimum} or more.`;
  if (rule.maximum !== undefined && value > rule.maximum) return `Enter ${rule.maximum} or less.`;
  return undefined;
}

/** Returns the messages of all broken bounds by field. */
export function violations(rule: Rule, value: Record<string, unknown>, prefix = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, property] of Object.entries(rule.properties ?? {})) {
    const field = prefix + name;
    const inner = value[name];
    const message = violation(property, inner, rule.required?.includes(name) ?? false);
    if (message) found[field] = message;
    if (Array.isArray(inner) && property.items) {
      inner.forEach((item, i) => {
        const wrong = violation(property.items!, item, true);
        if (wrong) found[`${field}[${i}]`] = wrong;
      });
    } else if (inner && typeof inner === "object" && property.properties) {
      Object.assign(found, violations(property, inner as Record<string, unknown>, field + "."));
    }
  }
  return found;
}
