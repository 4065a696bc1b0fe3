import { Field, type Form } from "../../../shared/web/forms/form";
import { Button, toLocalInput } from "../../../shared/web/ui";
import { texts } from "../texts/settings";

/** The expiry of a key or token: a time, or null for the default, which is none for a key. */
export function ExpiryField<V extends { expiresAt: string | null }>({
  form,
  hint = texts.keys.expiryHint,
  unlimited = true,
}: {
  form: Form<V>;
  hint?: string;
  unlimited?: boolean;
}) {
  const set = (at: Date | null) => form.set("expiresAt", at === null ? null : at.toISOString());
  return (
    <div class="stack tight">
      <Field form={form} name="expiresAt" label={texts.keys.expires} hint={hint}>
        {(control) => (
          <input
            class="input"
            type="datetime-local"
            {...control}
            value={toLocalInput(form.values.expiresAt)}
            onChange={(event) => {
              const { value } = event.currentTarget;
              set(value ? new Date(value) : null);
            }}
          />
        )}
      </Field>
      <div class="row" role="group" aria-label={texts.keys.presetLabel}>
        {texts.keys.presets.map(([label, days]) => (
          <Button key={label} size="small" onClick={() => set(new Date(Date.now() + days * 86_400_000))}>
            {label}
          </Button>
        ))}
        {unlimited && (
          <Button size="small" onClick={() => set(null)}>
            {texts.keys.presetNever}
          </Button>
        )}
      </div>
    </div>
  );
}
