import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, ButtonLink } from "../../../shared/web/ui";
import { requestPasswordReset as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useSendsMail } from "../parts/auth";
import { AuthPage } from "../parts/auth-page";
import { texts } from "../texts/auth";

/** Requests the e-mail that sets a new password. */
export default function ForgotPassword() {
  const [sent, setSent] = useState<string>();
  const sendsMail = useSendsMail();
  if (sent !== undefined)
    return (
      <AuthPage title={texts.forgotSent} hint={texts.forgotSentHint(sent)}>
        <ButtonLink to="/sign-in" kind="primary" wide>
          {texts.backToSignIn}
        </ButtonLink>
        <Button wide onClick={() => setSent(undefined)}>
          {texts.otherAddress}
        </Button>
      </AuthPage>
    );
  if (!sendsMail)
    return (
      <AuthPage title={texts.forgotTitle} hint={texts.forgotNoMail}>
        <ButtonLink to="/sign-in" kind="primary" wide>
          {texts.backToSignIn}
        </ButtonLink>
      </AuthPage>
    );
  return (
    <AuthPage
      title={texts.forgotTitle}
      hint={texts.forgotHint}
      below={<Link href="/sign-in">{texts.backToSignIn}</Link>}
    >
      <AddressForm onSent={setSent} />
    </AuthPage>
  );
}

function AddressForm({ onSent }: { onSent: (email: string) => void }) {
  const form = useForm({
    rule,
    initial: { email: "" },
    body: ({ email }) => ({ email: email.trim() }),
    warns: false,
    onSubmit: async (body) => {
      const request = body as Schema<"ForgotPasswordRequest">;
      await send(api.POST("/v1/auth/password/forgot", { body: request }));
      onSent(request.email);
    },
  });
  return (
    <FormFrame form={form} label={texts.forgotTitle}>
      <TextField form={form} name="email" label={texts.email} autocomplete="username" autofocus />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {texts.sendLink}
      </Button>
    </FormFrame>
  );
}
