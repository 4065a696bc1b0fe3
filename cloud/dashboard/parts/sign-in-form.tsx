import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { signIn as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/auth";
import { PasswordField } from "./password-field";

/** The form with e-mail address and password. `email` is fixed when a session is renewed. */
export function SignInForm({
  email,
  action = texts.signIn,
  onSignedIn,
}: {
  email?: string;
  action?: string;
  onSignedIn: (signIn: Schema<"SignIn">) => unknown;
}) {
  const form = useForm({
    rule,
    initial: { email: email ?? "", password: "" },
    body: ({ email: address, password }) => ({
      email: address.trim(),
      password,
    }),
    warns: false,
    onSubmit: async (body) => {
      await onSignedIn(
        await send(
          api.POST("/v1/auth/sign-in", {
            body: body as Schema<"SignInRequest">,
          }),
        ),
      );
    },
  });
  return (
    <FormFrame form={form} label={texts.signIn}>
      <TextField
        form={form}
        name="email"
        label={texts.email}
        autocomplete="username"
        readOnly={email !== undefined}
        autofocus={email === undefined}
      />
      <PasswordField
        form={form}
        name="password"
        label={texts.password}
        kind="current-password"
        autofocus={email !== undefined}
      />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {action}
      </Button>
    </FormFrame>
  );
}
