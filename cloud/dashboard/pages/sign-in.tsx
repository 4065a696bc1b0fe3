import { useEffect } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { useAddress } from "../../../shared/web/ui";
import { safeNext, useAuthOptions, useBegin, useVisitor, withNext } from "../parts/auth";
import { AuthPage, SingleSignOn } from "../parts/auth-page";
import { SignInForm } from "../parts/sign-in-form";
import { texts } from "../texts/auth";

/** Signs in by password or single sign-on, and continues with the page of `next`. */
export default function SignIn() {
  const [address] = useAddress<"next">();
  const [, navigate] = useLocation();
  const { user } = useVisitor();
  const begin = useBegin();
  const next = safeNext(address.next);
  useEffect(() => {
    if (user) navigate(next, { replace: true });
  }, [user]);
  return (
    <AuthPage
      title={texts.signIn}
      below={
        <>
          <Link href="/forgot-password">{texts.forgot}</Link>
          <SignUpLink next={next} />
        </>
      }
    >
      <SignInForm onSignedIn={begin} />
      <SingleSignOn next={next} />
    </AuthPage>
  );
}

function SignUpLink({ next }: { next: string }) {
  const policy = useAuthOptions().data?.signUp;
  if (!policy) return null;
  if (policy === "closed") return <p class="faint">{texts.closed}</p>;
  return (
    <p>
      <span class="faint">{policy === "open" ? texts.noAccount : texts.byInvitation}</span>{" "}
      <Link href={withNext("/sign-up", next)}>{texts.signUp}</Link>
    </p>
  );
}
