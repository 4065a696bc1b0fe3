import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { NumberField, SelectField, TextField, type Form } from "../../../shared/web/forms/form";
import { texts } from "../texts/profiles";
import { viewportSizes } from "./profile-options";
import type { ProfileValues } from "./profile-values";

export type ProfileForm = Form<ProfileValues>;

/** A flag that can also be left to the browser. */
export function FlagField({
  form,
  name,
  hint,
}: {
  form: ProfileForm;
  name: "isMobile" | "hasTouch" | "ignoreHTTPSErrors";
  hint?: string;
}) {
  return (
    <SelectField
      form={form}
      name={name}
      label={texts.fields[name] ?? name}
      hint={hint}
      options={texts.flags}
      empty={texts.form.defaultChoice}
    />
  );
}

/** A text field with suggestions. */
export function SuggestField({
  form,
  name,
  hint,
  suggestions,
  describe,
}: {
  form: ProfileForm;
  name: "locale" | "timezoneId";
  hint: string;
  suggestions: readonly string[];
  describe?: (value: string) => string | undefined;
}) {
  const id = useId();
  return (
    <>
      <TextField
        form={form}
        name={name}
        label={texts.fields[name] ?? name}
        hint={hint}
        list={id}
        autocomplete="off"
        spellcheck={false}
        placeholder={texts.form.defaultChoice}
      />
      <datalist id={id}>
        {suggestions.map((value) => (
          <option key={value} value={value} label={describe?.(value)} />
        ))}
      </datalist>
    </>
  );
}

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
        {label} <span class="optional">{texts.form.optional}</span>
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

/** A width and a height, with common sizes to choose from. */
export function SizeField({ form, name }: { form: ProfileForm; name: "viewport" | "screen" }) {
  const label = texts.fields[name] ?? name;
  const { width, height } = form.values[name];
  const preset = viewportSizes.find(([w, h]) => w === width && h === height);
  const custom = !preset && (width !== undefined || height !== undefined);
  form.register(name);
  const choose = (value: string) => {
    const [w, h] = value.split("x").map(Number);
    form.set(name, { width: w || undefined, height: h || undefined });
  };
  return (
    <Group label={label} error={form.errorOf(name)}>
      <select
        class="select"
        aria-label={texts.size.preset(label)}
        value={preset ? preset.join("x") : custom ? "custom" : ""}
        onChange={(event) => event.currentTarget.value !== "custom" && choose(event.currentTarget.value)}
      >
        <option value="">{texts.form.defaultChoice}</option>
        {custom && <option value="custom">{texts.size.custom}</option>}
        {viewportSizes.map(([w, h]) => (
          <option key={`${w}x${h}`} value={`${w}x${h}`}>
            {w} × {h}
          </option>
        ))}
      </select>
      <div class="pair">
        <NumberField form={form} name={`${name}.width`} label={texts.size.width} />
        <NumberField form={form} name={`${name}.height`} label={texts.size.height} />
      </div>
    </Group>
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

/** The password of the proxy. It can be set, replaced and removed, but never read. */
export function PasswordField({ form, stored, lost }: { form: ProfileForm; stored: boolean; lost: boolean }) {
  const [shown, setShown] = useState(false);
  const storedHint = lost ? texts.hints.passwordLost : texts.hints.passwordStored;
  const hint = stored ? storedHint : texts.hints.passwordNone;
  return (
    <div class="stack tight">
      <TextField
        form={form}
        name="proxy.password"
        label={texts.proxy.password}
        hint={hint}
        type={shown ? "text" : "password"}
        autocomplete="new-password"
        spellcheck={false}
      />
      {form.values.proxy.password !== "" && (
        <label class="check">
          <input type="checkbox" checked={shown} onChange={(event) => setShown(event.currentTarget.checked)} />
          <span>{texts.proxy.show}</span>
        </label>
      )}
      {stored && !lost && (
        <label class="check">
          <input
            type="checkbox"
            checked={form.values.proxy.removePassword}
            onChange={(event) => form.set("proxy.removePassword", event.currentTarget.checked)}
          />
          <span>{texts.proxy.removePassword}</span>
        </label>
      )}
    </div>
  );
}
