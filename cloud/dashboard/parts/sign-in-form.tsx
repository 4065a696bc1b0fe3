import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { signIn as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/auth";

/** The form with e-mail address and password. `email` is fixed when a session is renewed. */
export function SignInForm({
  email,
  onSignedIn,
}: {
  email?: string;
  onSignedIn: (signIn: Schema<"SignIn">) => unknown;
}) {
  const form = useForm({
    rule,
    initial: { email: email ?? "", password: "" },
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
      />
      <TextField
        form={form}
        name="password"
        label={texts.password}
        type="password"
        autocomplete="current-password"
      />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {texts.signIn}
      </Button>
    </FormFrame>
  );
}
