import { useMutation } from "@tanstack/preact-query";
import { useEffect } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { ButtonLink, ErrorNotice, Loading, Notice } from "../../../shared/web/ui";
import { api } from "../api";
import { useBegin, useLinkToken } from "../parts/auth";
import { AuthPage } from "../parts/auth-page";
import { texts } from "../texts/auth";

/** Exchanges the token of a sign-in link, once, and opens the overview. */
export default function SignInLink() {
  const token = useLinkToken();
  const [, navigate] = useLocation();
  const begin = useBegin();
  const exchange = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/sign-in/link", { body: { token } })),
    // The answer has the token of the session, which scripts need not keep.
    gcTime: 0,
    onSuccess: (signIn) => {
      begin(signIn);
      navigate("/overview", { replace: true });
    },
  });
  useEffect(() => {
    if (token) exchange.mutate();
  }, [token]);

  const error = exchange.error;
  if (token && !error)
    return (
      <AuthPage title={texts.linkTitle}>
        <Loading lines={2} />
      </AuthPage>
    );
  const invalid = !(error instanceof ApiError) || error.status === 401;
  return (
    <AuthPage title={token ? texts.linkFailed : texts.linkMissing} hint={texts.linkHint}>
      {error && invalid ? (
        <Notice tone="bad" title={error.message} />
      ) : error ? (
        <ErrorNotice error={error} onRetry={() => exchange.mutate()} />
      ) : null}
      <ButtonLink to="/sign-in" kind="primary" wide>
        {texts.toSignIn}
      </ButtonLink>
    </AuthPage>
  );
}
