import { useId, useState } from "preact/hooks";
import { Group } from "../../../shared/web/forms/choices";
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
