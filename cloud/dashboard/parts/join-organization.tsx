import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { Button, ButtonLink, ErrorNotice, Notice, toast, toastError } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/auth";
import { announce } from "./auth";
import { AuthPage } from "./auth-page";

/**
 * Accepts an invitation for the signed-in user and activates the organization. With `at="once"` the user has just asked
 * for it by signing in or up for the invitation.
 */
export function JoinOrganization({
  token,
  user,
  at,
  onLeave,
}: {
  token: string;
  user: Schema<"User">;
  at: "once" | "click";
  onLeave?: () => void;
}) {
  const queries = useQueryClient();
  const [active, setActive] = useState(true);
  const accept = useMutation({
    mutationFn: async () => {
      const joined = await send(api.POST("/v1/invitations/accept", { body: { token } }));
      // The membership exists now: a failure to activate must not look like a failure to join.
      await activate(joined.id).then(
        () => announce("changed"),
        () => setActive(false),
      );
      queries.removeQueries({
        predicate: ({ queryKey: [first] }) => first !== "session" && first !== "auth-options",
      });
      await queries.invalidateQueries({ queryKey: ["session"] });
      return joined;
    },
    onError: (error) => {
      // The session has ended: the page offers to sign in.
      if (error instanceof ApiError && error.status === 401) onLeave?.();
    },
  });
  useEffect(() => {
    if (at === "once") accept.mutate();
  }, []);
  if (accept.data)
    return (
      <AuthPage title={texts.joined(accept.data.name)} hint={texts.joinedHint(accept.data.role)}>
        {!active && <Notice tone="wait">{texts.notActivated}</Notice>}
        <ButtonLink to="/overview" kind="primary" wide>
          {texts.continue}
        </ButtonLink>
      </AuthPage>
    );
  return (
    <AuthPage title={texts.joinTitle} hint={texts.joinHint}>
      {accept.error && <Refusal error={accept.error} user={user} />}
      {!accept.error && <p>{texts.signedInAs(user.email)}</p>}
      <Button kind="primary" wide busy={accept.isPending} onClick={() => accept.mutate()}>
        {accept.isPending ? texts.joining : texts.join}
      </Button>
      {onLeave && <OtherAccount onLeave={onLeave} />}
      {accept.error && <ButtonLink to="/overview">{texts.toOverview}</ButtonLink>}
    </AuthPage>
  );
}

function activate(organizationId: string) {
  return send(
    api.POST("/v1/organizations/{organizationId}/activate", {
      params: { path: { organizationId } },
    }),
  );
}

/** Signs out, and keeps the page with the invitation. */
function OtherAccount({ onLeave }: { onLeave: () => void }) {
  const leave = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/sign-out")),
    onSuccess: () => {
      announce("ended");
      onLeave();
    },
    onError: toastError,
  });
  return (
    <Button wide busy={leave.isPending} onClick={() => leave.mutate()}>
      {texts.otherAccount}
    </Button>
  );
}

/** Why the invitation was not accepted, and what to do. */
function Refusal({ error, user }: { error: Error; user: Schema<"User"> }) {
  const failure = error instanceof ApiError ? error : undefined;
  if (failure?.details.some((d) => d.field === "memberLimit"))
    return (
      <Notice tone="bad" title={texts.memberLimit}>
        {texts.memberLimitHint}
      </Notice>
    );
  // The API does not tell apart a wrong and an unverified address; its message does.
  if (failure?.status === 403)
    return (
      <Notice tone="bad" title={failure.message}>
        <div class="stack tight">
          <p>{user.emailVerified ? texts.wrongAccountHint(user.email) : texts.unverifiedHint(user.email)}</p>
          {!user.emailVerified && <SendVerification />}
        </div>
      </Notice>
    );
  if (failure?.status === 404)
    return (
      <Notice tone="bad" title={texts.unknownInvitation}>
        {texts.unknownInvitationHint}
      </Notice>
    );
  if (failure?.status === 409)
    return (
      <Notice tone="bad" title={texts.overInvitation}>
        {failure.message}
      </Notice>
    );
  return <ErrorNotice error={error} />;
}

function SendVerification() {
  const resend = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/verify-email/resend")),
    onSuccess: () => toast(texts.verificationSent),
  });
  return (
    <>
      {resend.error && <ErrorNotice error={resend.error} />}
      <div>
        <Button size="small" icon="mail" busy={resend.isPending} onClick={() => resend.mutate()}>
          {texts.sendVerification}
        </Button>
      </div>
    </>
  );
}
