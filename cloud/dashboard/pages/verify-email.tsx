import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { Button, ButtonLink, ErrorNotice } from "../../../shared/web/ui";
import { api } from "../api";
import { useLinkToken } from "../parts/auth";
import { AuthPage, IncompleteLink } from "../parts/auth-page";
import { texts } from "../texts/auth";

/**
 * Verifies an e-mail address with the token of a mailed link. It asks for a click, because programs that check mails
 * open links too.
 */
export default function VerifyEmail() {
  const token = useLinkToken();
  const toAccount = (
    <ButtonLink to="/account" kind="primary" wide>
      {texts.toAccount}
    </ButtonLink>
  );
  if (!token) return <IncompleteLink action={toAccount} />;
  return <Verify key={token} token={token} />;
}

function Verify({ token }: { token: string }) {
  const queries = useQueryClient();
  const verify = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/verify-email", { body: { token } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["session"] }),
  });
  const error = verify.error;
  if (verify.isSuccess)
    return (
      <AuthPage title={texts.verified} hint={texts.verifiedHint}>
        <ButtonLink to="/overview" kind="primary" wide>
          {texts.continue}
        </ButtonLink>
      </AuthPage>
    );
  if (error instanceof ApiError && error.details.some((d) => d.field === "token"))
    return (
      <AuthPage title={texts.verifyInvalid} hint={texts.verifyInvalidHint}>
        <ButtonLink to="/account" kind="primary" wide>
          {texts.toAccount}
        </ButtonLink>
      </AuthPage>
    );
  return (
    <AuthPage title={texts.verifyTitle} hint={texts.verifyHint}>
      {error && <ErrorNotice error={error} />}
      <Button kind="primary" wide busy={verify.isPending} onClick={() => verify.mutate()}>
        {texts.verify}
      </Button>
    </AuthPage>
  );
}
