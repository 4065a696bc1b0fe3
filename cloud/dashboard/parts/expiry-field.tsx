import { Field, type Form } from "../../../shared/web/forms/form";
import { Button, toLocalInput } from "../../../shared/web/ui";
import { texts } from "../texts/settings";

/** The expiry of a key: a time, or null for a key that does not expire. */
export function ExpiryField<V extends { expiresAt: string | null }>({ form }: { form: Form<V> }) {
  const set = (at: Date | null) => form.set("expiresAt", at === null ? null : at.toISOString());
  return (
    <div class="stack tight">
      <Field form={form} name="expiresAt" label={texts.keys.expires} hint={texts.keys.expiryHint}>
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
        <Button size="small" onClick={() => set(null)}>
          {texts.keys.presetNever}
        </Button>
      </div>
    </div>
  );
}
