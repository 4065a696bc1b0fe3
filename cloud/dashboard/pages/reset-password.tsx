import { useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { FormFrame, useForm } from "../../../shared/web/forms/form";
import { Button, ButtonLink } from "../../../shared/web/ui";
import { resetPassword as rule } from "../../../gen/web/cloud-rules";
import { api, expectOrganization, type Schema } from "../api";
import { useLinkToken } from "../parts/auth";
import { AuthPage, IncompleteLink } from "../parts/auth-page";
import { PasswordField } from "../parts/password-field";
import { texts } from "../texts/auth";

/** Sets a new password with the token of a mailed link. */
export default function ResetPassword() {
  const token = useLinkToken();
  // Another link opened in this tab starts over.
  return <Reset key={token} token={token} />;
}

function Reset({ token }: { token: string }) {
  const [state, setState] = useState<"asks" | "done" | "invalid">("asks");
  const another = (
    <ButtonLink to="/forgot-password" kind="primary" wide>
      {texts.requestLink}
    </ButtonLink>
  );
  if (!token) return <IncompleteLink action={another} />;
  if (state === "invalid")
    return (
      <AuthPage title={texts.resetInvalid} hint={texts.resetInvalidHint}>
        {another}
      </AuthPage>
    );
  if (state === "done")
    return (
      <AuthPage title={texts.resetDone} hint={texts.resetDoneHint}>
        <ButtonLink to="/sign-in" kind="primary" wide>
          {texts.signIn}
        </ButtonLink>
      </AuthPage>
    );
  return (
    <AuthPage title={texts.resetTitle} hint={texts.resetHint}>
      <PasswordForm token={token} onDone={() => setState("done")} onInvalid={() => setState("invalid")} />
    </AuthPage>
  );
}

function PasswordForm({ token, onDone, onInvalid }: { token: string; onDone: () => void; onInvalid: () => void }) {
  const queries = useQueryClient();
  const form = useForm({
    rule,
    initial: { password: "" },
    body: ({ password }) => ({ token, password }),
    warns: false,
    onSubmit: async (body) => {
      try {
        await send(
          api.POST("/v1/auth/password/reset", {
            body: body as Schema<"ResetPasswordRequest">,
          }),
        );
      } catch (error) {
        if (error instanceof ApiError && error.details.some((d) => d.field === "token")) return onInvalid();
        throw error;
      }
      // The reset has ended all sessions, also the one of this tab.
      expectOrganization(undefined);
      queries.clear();
      onDone();
    },
  });
  return (
    <FormFrame form={form} label={texts.resetTitle}>
      <PasswordField form={form} name="password" label={texts.newPassword} kind="new-password" autofocus />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {texts.setPassword}
      </Button>
    </FormFrame>
  );
}
