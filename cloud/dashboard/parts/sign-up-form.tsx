import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { signUp as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/auth";
import { PasswordField } from "./password-field";

const ruleWithToken = {
  ...rule,
  required: [...rule.required, "invitationToken"],
};

/** Returns the token of a text that may be a whole link. */
function tokenIn(text: string): string {
  return text.trim().replace(/^.*token=/s, "");
}

/**
 * The form for an account. `token` is the token of an invitation; with `asksToken`, the user enters it. The account is
 * signed in.
 */
export function SignUpForm({
  token,
  asksToken = false,
  action = texts.createAccount,
  onSignedUp,
}: {
  token?: string;
  asksToken?: boolean;
  action?: string;
  onSignedUp: (signIn: Schema<"SignIn">, token: string) => unknown;
}) {
  const form = useForm({
    rule: asksToken ? ruleWithToken : rule,
    initial: { name: "", email: "", password: "", invitationToken: "" },
    warns: false,
    body: (values) => {
      const invitationToken = token ?? tokenIn(values.invitationToken);
      return {
        name: values.name.trim(),
        email: values.email.trim(),
        password: values.password,
        ...(invitationToken && { invitationToken }),
      };
    },
    onSubmit: async (body) => {
      const sent = body as Schema<"SignUpRequest">;
      const signedUp = await send(api.POST("/v1/auth/sign-up", { body: sent }));
      await onSignedUp(signedUp, sent.invitationToken ?? "");
    },
  });
  return (
    <FormFrame form={form} label={texts.signUpTitle}>
      {asksToken && (
        <TextField
          form={form}
          name="invitationToken"
          label={texts.invitationToken}
          hint={texts.invitationTokenHint}
          autocomplete="off"
          spellcheck={false}
          autofocus
        />
      )}
      <TextField
        form={form}
        name="name"
        label={texts.name}
        hint={texts.nameHint}
        autocomplete="name"
        autofocus={!asksToken}
      />
      <TextField
        form={form}
        name="email"
        label={texts.email}
        hint={token || asksToken ? texts.invitedAddress : undefined}
        autocomplete="username"
      />
      <PasswordField form={form} name="password" label={texts.password} kind="new-password" />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {action}
      </Button>
    </FormFrame>
  );
}
