import { useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ButtonLink, ErrorNotice, Loading, Segments } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { useAuthOptions, useBegin, useLinkToken, useVisitor } from "../parts/auth";
import { AuthPage, IncompleteLink, SingleSignOn } from "../parts/auth-page";
import { JoinOrganization } from "../parts/join-organization";
import { SignInForm } from "../parts/sign-in-form";
import { SignUpForm } from "../parts/sign-up-form";
import { texts } from "../texts/auth";

/** Accepts the invitation of a mailed link, after a sign-in or sign-up if needed. */
export default function AcceptInvitation() {
  const token = useLinkToken();
  const queries = useQueryClient();
  const begin = useBegin();
  const { query, user, signedOut } = useVisitor();
  // Kept while the session is fetched again, so that the page does not start over.
  const [joining, setJoining] = useState<Schema<"User">>();
  const [asked, setAsked] = useState(false);
  if (!token)
    return (
      <IncompleteLink
        action={
          <ButtonLink to="/overview" wide>
            {texts.toOverview}
          </ButtonLink>
        }
      />
    );
  const shown = joining ?? user;
  if (user && (!joining || joining.emailVerified !== user.emailVerified)) setJoining(user);
  if (shown)
    return (
      <JoinOrganization
        key={`${token} ${shown.id}`}
        token={token}
        user={shown}
        at={asked ? "once" : "click"}
        onLeave={() => {
          setJoining(undefined);
          setAsked(false);
          queries.clear();
          void query.refetch();
        }}
      />
    );
  const signedIn = (signIn: Schema<"SignIn">) => {
    setAsked(true);
    begin(signIn);
  };
  if (signedOut) return <Ways token={token} onSignedIn={signedIn} />;
  return (
    <AuthPage title={texts.joinTitle}>
      {query.error && !query.isFetching ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading />
      )}
    </AuthPage>
  );
}

/** The forms for users with and without an account. */
function Ways({ token, onSignedIn }: { token: string; onSignedIn: (signIn: Schema<"SignIn">) => void }) {
  const [isNew, setNew] = useState(false);
  // The form for a closed sign-up would always fail.
  const closed = useAuthOptions().data?.signUp === "closed";
  return (
    <AuthPage
      title={texts.joinTitle}
      hint={texts.joinHint}
      below={isNew ? undefined : <Link href="/forgot-password">{texts.forgot}</Link>}
    >
      {!closed && (
        <div>
          <Segments
            label={texts.joinHow}
            name="way"
            value={isNew ? "new" : "known"}
            options={[
              ["known", texts.joinSignIn],
              ["new", texts.joinSignUp],
            ]}
            onChange={(way) => setNew(way === "new")}
          />
        </div>
      )}
      {isNew && !closed ? (
        <SignUpForm token={token} action={texts.signUpAndJoin} onSignedUp={onSignedIn} />
      ) : (
        <SignInForm action={texts.signInAndJoin} onSignedIn={onSignedIn} />
      )}
      <SingleSignOn next="/account/accept-invitation" hint={texts.joinSsoHint} />
    </AuthPage>
  );
}
