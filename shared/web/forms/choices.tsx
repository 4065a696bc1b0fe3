import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Form } from "./form";

/** A group of controls with a legend and an error for all of them. */
export function Group({
  label,
  error,
  hint,
  children,
}: {
  label: string;
  error?: string;
  hint?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <fieldset
      class="field"
      aria-describedby={[error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(" ") || undefined}
    >
      <legend class="label">
        {label} <span class="optional">optional</span>
      </legend>
      {children}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error && (
        <span class="error" id={`${id}-error`} role="alert">
          {error}
        </span>
      )}
    </fieldset>
  );
}

/** Checkboxes for a list of fixed values. */
export function ChoicesField<V extends Record<string, unknown>>({
  form,
  name,
  label,
  chosen,
  options,
  hint,
}: {
  form: Form<V>;
  name: string;
  label: string;
  chosen: readonly string[];
  options: readonly (string | [value: string, label: string])[];
  hint: string;
}) {
  const choices = options.map((option) => (typeof option === "string" ? ([option, option] as const) : option));
  form.register(name);
  return (
    <Group label={label} hint={hint} error={form.errorOf(name)}>
      <div class="choices">
        {choices.map(([value, text]) => (
          <label key={value} class="check">
            <input
              type="checkbox"
              checked={chosen.includes(value)}
              onChange={(event) =>
                form.set(
                  name,
                  choices
                    .map(([v]) => v)
                    .filter((v) => (v === value ? event.currentTarget.checked : chosen.includes(v))),
                )
              }
            />
            <span>{text}</span>
          </label>
        ))}
      </div>
    </Group>
  );
}
