import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, type ErrorDetail } from "../api/errors";
import { ErrorNotice } from "../ui/feedback";
import { toastError } from "../ui/toast";
import { ruleAt, violations, type Rule } from "./rules";

type Values = Record<string, unknown>;

export interface Form<V extends Values> {
  values: V;
  /** Sets a field such as `name` or `proxy.server`. */
  set: (field: string, value: unknown) => void;
  /** Replaces all values, for example with the result of a save. */
  reset: (values: V) => void;
  errorOf: (field: string) => string | undefined;
  ruleOf: (field: string) => Rule | undefined;
  requires: (field: string) => boolean;
  dirty: boolean;
  busy: boolean;
  /** An error that belongs to no visible field. */
  failure: unknown;
  submit: (event?: Event) => Promise<void>;
  /** Makes errors of the field appear at it. Each control calls it. */
  register: (field: string) => void;
}

interface Options<V extends Values> {
  rule: Rule;
  initial: V;
  /** Returns the request body; the default is the values without empty texts. */
  body?: (values: V) => Values;
  onSubmit: (body: Values, values: V) => Promise<unknown>;
  /** Additional checks: messages by field. */
  check?: (values: V) => Record<string, string | undefined>;
  /** Whether to ask before the tab closes with unsaved input. The default is true. */
  warns?: boolean;
}

/** Returns the values without empty texts and undefined values; the API takes those as absent. */
function withoutEmpty(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, v]) => v !== "" && v !== undefined));
}

/** Names the entry of a list or map that a message is about: `[1]` or `.X-Test`. */
function entryOf(rest: string): string {
  const [, index, key] = /^(?:\[(\d+)\]|\.(.+))/.exec(rest) ?? [];
  return index ? `Entry ${Number(index) + 1}: ` : key ? `${key}: ` : "";
}

function getAt(values: unknown, field: string): unknown {
  return field.split(".").reduce<unknown>((at, part) => (at as Values | undefined)?.[part], values);
}

function setAt<V extends Values>(values: V, field: string, value: unknown): V {
  const [first = "", ...rest] = field.split(".");
  const inner = rest.length ? setAt((values[first] as Values | undefined) ?? {}, rest.join("."), value) : value;
  return { ...values, [first]: inner };
}

/**
 * The state of a form. It checks the bounds of the API document before it sends, places the errors of the server at
 * their fields, and keeps what the user typed when a request fails.
 */
export function useForm<V extends Values>({
  rule,
  initial,
  body = withoutEmpty,
  onSubmit,
  check,
  warns = true,
}: Options<V>): Form<V> {
  const [values, setValues] = useState(initial);
  const [clean, setClean] = useState(initial);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const visible = useRef(new Set<string>());
  const sending = useRef(false);
  const shown = useRef(true);
  useEffect(() => () => void (shown.current = false), []);
  const dirty = values !== clean && JSON.stringify(values) !== JSON.stringify(clean);
  useLeaveWarning(warns && dirty && !busy);

  const place = (details: ErrorDetail[], error: ApiError) => {
    const placed: Record<string, string> = {};
    for (const detail of details) {
      const field = [...visible.current]
        .filter((f) => detail.field === f || detail.field.startsWith(f + ".") || detail.field.startsWith(f + "["))
        .sort((a, b) => b.length - a.length)[0];
      if (field) placed[field] ??= entryOf(detail.field.slice(field.length)) + detail.message;
    }
    setErrors(placed);
    setFailure(Object.keys(placed).length === details.length && details.length > 0 ? undefined : error);
    focusFirst();
  };
  const focusFirst = () =>
    setTimeout(
      () => document.querySelector<HTMLElement>("form [aria-invalid=true], dialog [aria-invalid=true]")?.focus(),
      0,
    );

  return {
    values,
    dirty,
    busy,
    failure,
    set: (field, value) => {
      setValues((now) => setAt(now, field, value));
      setErrors(({ [field]: _, ...rest }) => rest);
    },
    reset: (next) => {
      setValues(next);
      setClean(next);
      setErrors({});
      setFailure(undefined);
    },
    errorOf: (field) => errors[field],
    ruleOf: (field) => ruleAt(rule, field),
    requires: (field) => {
      const parts = field.split(".");
      const parent = parts.length > 1 ? ruleAt(rule, parts.slice(0, -1).join(".")) : rule;
      return parent?.required?.includes(parts.at(-1)!) ?? false;
    },
    register: (field) => void visible.current.add(field),
    submit: async (event) => {
      event?.preventDefault();
      if (sending.current) return;
      const sent = body(values);
      const extra = Object.entries(check?.(values) ?? {}).filter(
        (entry): entry is [string, string] => entry[1] !== undefined,
      );
      const found = { ...violations(rule, sent), ...Object.fromEntries(extra) };
      if (Object.keys(found).length > 0) {
        const details = Object.entries(found).map(([field, message]) => ({ field, message, code: "CUSTOM" }));
        place(details, new ApiError(400, "VALIDATION_ERROR", "Some fields are not valid.", details));
        return;
      }
      sending.current = true;
      setBusy(true);
      setFailure(undefined);
      try {
        await onSubmit(sent, values);
        setClean(values);
      } catch (error) {
        // The form was closed meanwhile.
        if (!shown.current) toastError(error);
        else if (error instanceof ApiError) place(error.details, error);
        else setFailure(error);
      } finally {
        sending.current = false;
        setBusy(false);
      }
    },
  };
}

/** Asks before the user closes the tab, for example with unsaved input. */
export function useLeaveWarning(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [active]);
}

/** The form element with its general error at the top. */
export function FormFrame<V extends Values>({
  form,
  children,
  label,
}: {
  form: Form<V>;
  children: ComponentChildren;
  label: string;
}) {
  return (
    <form class="stack" noValidate aria-label={label} onSubmit={(event) => void form.submit(event)}>
      {form.failure ? <ErrorNotice error={form.failure} /> : null}
      {children}
    </form>
  );
}

interface FieldProps<V extends Values> {
  form: Form<V>;
  name: string;
  label: string;
  hint?: ComponentChildren;
}

interface Control {
  id: string;
  "aria-invalid": true | undefined;
  "aria-describedby": string | undefined;
  "aria-required": true | undefined;
}

/** Returns the message as a sentence. Messages of the server such as "is wrong" continue the name of the field. */
function sentence(label: string, message: string | undefined): string | undefined {
  if (!message || !/^\p{Ll}/u.test(message)) return message;
  const end = /[.!?]$/.test(message) ? "" : ".";
  const continues = /^(is|was|must|has|requires|conflicts|raises|belongs) /.test(message);
  return (continues ? `${label} ${message}` : message[0]!.toUpperCase() + message.slice(1)) + end;
}

/** A label, a control, a hint and the error of a field. */
export function Field<V extends Values>({
  form,
  name,
  label,
  hint,
  children,
}: FieldProps<V> & { children: (control: Control) => ComponentChildren }) {
  const id = useId();
  const error = sentence(label, form.errorOf(name));
  const required = form.requires(name);
  form.register(name);
  return (
    <div class="field">
      <label for={id}>
        {label} {!required && <span class="optional">optional</span>}
      </label>
      {children({
        id,
        "aria-invalid": error ? true : undefined,
        "aria-describedby": error ? `${id}-error` : hint ? `${id}-hint` : undefined,
        "aria-required": required || undefined,
      })}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error && (
        <span class="error" id={`${id}-error`}>
          {error}
        </span>
      )}
    </div>
  );
}

type InputProps = Omit<JSX.InputHTMLAttributes<HTMLInputElement>, "form" | "name" | "label">;

/** A text field. */
export function TextField<V extends Values>({ form, name, label, hint, ...input }: FieldProps<V> & InputProps) {
  const rule = form.ruleOf(name);
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <input
          class="input"
          name={name}
          type={rule?.format === "email" ? "email" : "text"}
          {...input}
          {...control}
          value={(getAt(form.values, name) as string | null | undefined) ?? ""}
          onInput={(event) => form.set(name, event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A number field; empty is undefined. */
export function NumberField<V extends Values>({ form, name, label, hint, ...input }: FieldProps<V> & InputProps) {
  const rule = form.ruleOf(name);
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <input
          class="input numeric"
          name={name}
          type="number"
          inputMode="decimal"
          step={rule?.type === "integer" ? 1 : "any"}
          min={rule?.minimum}
          max={rule?.maximum}
          {...input}
          {...control}
          value={(getAt(form.values, name) as number | null | undefined) ?? ""}
          onInput={(event) =>
            form.set(name, event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)
          }
        />
      )}
    </Field>
  );
}

/** A text field with several lines. */
export function TextArea<V extends Values>({ form, name, label, hint, rows = 4 }: FieldProps<V> & { rows?: number }) {
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <textarea
          class="textarea"
          name={name}
          rows={rows}
          {...control}
          value={(getAt(form.values, name) as string | null | undefined) ?? ""}
          onInput={(event) => form.set(name, event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A list of choices. `empty` is the label of no choice. */
export function SelectField<V extends Values>({
  form,
  name,
  label,
  hint,
  options,
  empty,
}: FieldProps<V> & { options: readonly (string | [value: string, label: string])[]; empty?: string }) {
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <select
          class="select"
          name={name}
          {...control}
          value={(getAt(form.values, name) as string | null | undefined) ?? ""}
          onChange={(event) => form.set(name, event.currentTarget.value || undefined)}
        >
          {empty !== undefined && <option value="">{empty}</option>}
          {options.map((option) => {
            const [value, text] = typeof option === "string" ? [option, option] : option;
            return (
              <option key={value} value={value}>
                {text}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

/** A checkbox. */
export function CheckField<V extends Values>({ form, name, label, hint }: FieldProps<V>) {
  const id = useId();
  const error = sentence(label, form.errorOf(name));
  form.register(name);
  return (
    <div class="field">
      <div class="check">
        <input
          id={id}
          name={name}
          type="checkbox"
          aria-describedby={hint ? `${id}-hint` : undefined}
          checked={getAt(form.values, name) === true}
          onChange={(event) => form.set(name, event.currentTarget.checked)}
        />
        <div>
          <label for={id}>{label}</label>
          {hint && (
            <div class="hint" id={`${id}-hint`}>
              {hint}
            </div>
          )}
          {error && <div class="error">{error}</div>}
        </div>
      </div>
    </div>
  );
}

/** A list of texts, for example tags: Enter or a comma adds one, Backspace removes the last. */
export function TagsField<V extends Values>({
  form,
  name,
  label,
  hint,
  placeholder,
  suggestions,
}: FieldProps<V> & { placeholder?: string; suggestions?: readonly string[] }) {
  const [text, setText] = useState("");
  const listId = useId();
  const items = (getAt(form.values, name) as string[] | null | undefined) ?? [];
  const add = () => {
    const next = text.trim();
    if (next && !items.includes(next)) form.set(name, [...items, next]);
    setText("");
  };
  const remove = (item: string) =>
    form.set(
      name,
      items.filter((i) => i !== item),
    );
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <div class="tag-input">
          {items.map((item) => (
            <span key={item} class="badge accent">
              {item}
              <button type="button" aria-label={`Remove ${item}`} onClick={() => remove(item)}>
                ×
              </button>
            </span>
          ))}
          <input
            {...control}
            value={text}
            placeholder={items.length ? undefined : placeholder}
            list={suggestions && listId}
            onInput={(event) => setText(event.currentTarget.value)}
            onBlur={add}
            onKeyDown={(event) => {
              if (event.key === "Enter" || event.key === ",") {
                event.preventDefault();
                add();
              } else if (event.key === "Backspace" && text === "" && items.length) {
                remove(items.at(-1)!);
              }
            }}
          />
          {suggestions && (
            <datalist id={listId}>
              {suggestions.map((s) => (
                <option key={s} value={s} />
              ))}
            </datalist>
          )}
        </div>
      )}
    </Field>
  );
}

/** Returns the pairs that have a name. */
const objectOf = (pairs: [string, string][]): Record<string, string> =>
  Object.fromEntries(pairs.filter(([key]) => key !== ""));

/** A list of name and value pairs, for example HTTP headers. */
export function PairsField<V extends Values>({
  form,
  name,
  label,
  hint,
  nameLabel = "Name",
  valueLabel = "Value",
}: FieldProps<V> & { nameLabel?: string; valueLabel?: string }) {
  const id = useId();
  const stored = (getAt(form.values, name) as Record<string, string> | null | undefined) ?? {};
  const [pairs, setPairs] = useState<[string, string][]>(() => Object.entries(stored));
  const error = sentence(label, form.errorOf(name));
  form.register(name);
  const text = JSON.stringify(stored);
  useEffect(() => {
    // The form was reset.
    if (text !== JSON.stringify(objectOf(pairs))) setPairs(Object.entries(stored));
  }, [text]);
  const update = (next: [string, string][]) => {
    setPairs(next);
    form.set(name, objectOf(next));
  };
  const change = (i: number, pair: [string, string]) => update(pairs.map((p, j) => (i === j ? pair : p)));
  return (
    <fieldset class="field" aria-describedby={error ? `${id}-error` : undefined}>
      <legend class="label">
        {label} <span class="optional">optional</span>
      </legend>
      {pairs.map(([key, value], i) => (
        <div key={i} class="input-group">
          <input
            class="input"
            aria-label={`${label}: ${nameLabel} ${i + 1}`}
            placeholder={nameLabel}
            value={key}
            onInput={(event) => change(i, [event.currentTarget.value, value])}
          />
          <input
            class="input"
            aria-label={`${label}: ${valueLabel} ${i + 1}`}
            placeholder={valueLabel}
            value={value}
            onInput={(event) => change(i, [key, event.currentTarget.value])}
          />
          <button
            type="button"
            class="button quiet icon"
            aria-label={`Remove ${key || "row"}`}
            onClick={() => update(pairs.filter((_, j) => i !== j))}
          >
            ×
          </button>
        </div>
      ))}
      <div>
        <button type="button" class="button small" onClick={() => update([...pairs, ["", ""]])}>
          Add
        </button>
      </div>
      {hint && <span class="hint">{hint}</span>}
      {error && (
        <span class="error" id={`${id}-error`}>
          {error}
        </span>
      )}
    </fieldset>
  );
}
