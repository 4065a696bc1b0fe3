import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { Loaded, Notice, useAddress } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { safeNext, useAuthOptions, useBegin, useVisitor, withNext } from "../parts/auth";
import { AuthPage, SingleSignOn } from "../parts/auth-page";
import { JoinOrganization } from "../parts/join-organization";
import { SignUpForm } from "../parts/sign-up-form";
import { texts } from "../texts/auth";

/** Creates an account, as far as the sign-up policy allows it. */
export default function SignUp() {
  const [address] = useAddress<"next">();
  const [, navigate] = useLocation();
  const { user } = useVisitor();
  const options = useAuthOptions();
  // Kept while the session is fetched again, so that the invitation is accepted once.
  const [joining, setJoining] = useState<{
    token: string;
    user: Schema<"User">;
  }>();
  const next = safeNext(address.next);
  useEffect(() => {
    if (user && !joining) navigate(next, { replace: true });
  }, [user]);
  if (joining) return <JoinOrganization {...joining} at="once" />;
  return (
    <AuthPage
      title={texts.signUpTitle}
      hint={options.data?.signUp === "open" ? texts.afterSignUp : undefined}
      below={
        <p>
          <span class="faint">{texts.haveAccount}</span> <Link href={withNext("/sign-in", next)}>{texts.signIn}</Link>
        </p>
      }
    >
      <Loaded query={options} lines={6}>
        {({ signUp }) => <ByPolicy policy={signUp} next={next} onInvited={setJoining} />}
      </Loaded>
    </AuthPage>
  );
}

function ByPolicy({
  policy,
  next,
  onInvited,
}: {
  policy: Schema<"SignUpPolicy">;
  next: string;
  onInvited: (joining: { token: string; user: Schema<"User"> }) => void;
}) {
  const begin = useBegin();
  if (policy === "closed")
    return (
      <Notice tone="wait" title={texts.signUpClosed}>
        {texts.signUpClosedHint}
      </Notice>
    );
  const invited = policy === "invite";
  return (
    <>
      {invited && <Notice title={texts.inviteOnly}>{texts.inviteOnlyHint}</Notice>}
      <SignUpForm
        asksToken={invited}
        onSignedUp={(signIn, token) => {
          if (token) onInvited({ token, user: signIn.user });
          begin(signIn);
        }}
      />
      <SingleSignOn next={next} />
    </>
  );
}
