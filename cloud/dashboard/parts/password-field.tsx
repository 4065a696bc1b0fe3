import { useState } from "preact/hooks";
import { Field, type Form } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { texts } from "../texts/auth";

/** A password field with a button that shows the password. A new password states its rules. */
export function PasswordField<V extends Record<string, unknown>>({
  form,
  name,
  label,
  kind,
  hint = kind === "new-password" ? texts.passwordRules : undefined,
  autofocus,
}: {
  form: Form<V>;
  name: string;
  label: string;
  kind: "current-password" | "new-password";
  hint?: string;
  autofocus?: boolean;
}) {
  const [shown, setShown] = useState(false);
  return (
    <Field form={form} name={name} label={label} hint={hint}>
      {(control) => (
        <div class="input-group">
          <input
            class="input"
            name={name}
            // Password managers store what is sent from a password field.
            type={shown && !form.busy ? "text" : "password"}
            autocomplete={kind}
            autocapitalize="none"
            spellcheck={false}
            autofocus={autofocus}
            {...control}
            value={(form.values[name] as string | undefined) ?? ""}
            onInput={(event) => form.set(name, event.currentTarget.value)}
          />
          <Button
            aria-label={shown ? texts.hidePassword : texts.showPassword}
            aria-controls={control.id}
            onClick={() => setShown(!shown)}
          >
            {shown ? texts.hide : texts.show}
          </Button>
        </div>
      )}
    </Field>
  );
}
