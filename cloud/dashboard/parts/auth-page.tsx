import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Notice } from "../../../shared/web/ui";
import { basePath } from "../../../shared/web/api/client";
import { Centered } from "../shell";
import { texts as shellTexts } from "../texts/shell";
import { texts } from "../texts/auth";
import { useAuthOptions } from "./auth";
import "./auth-page.css";

/** A page without navigation: a title and a panel. */
export function AuthPage({
  title,
  hint,
  children,
  below,
}: {
  title: string;
  hint?: ComponentChildren;
  children: ComponentChildren;
  below?: ComponentChildren;
}) {
  const section = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${shellTexts.product}`;
    // When a step replaces a form, the focus is nowhere: continue with the new step.
    if (document.activeElement === document.body) {
      const field = section.current?.querySelector<HTMLElement>("[autofocus]");
      (field ?? heading.current)?.focus();
    }
  }, [title]);
  return (
    <Centered>
      <section class="panel stack auth-page" ref={section}>
        <div class="page-header">
          <h1 tabIndex={-1} ref={heading}>
            {title}
          </h1>
          {hint && <p>{hint}</p>}
        </div>
        {children}
      </section>
      {below && <div class="auth-below">{below}</div>}
    </Centered>
  );
}

/** The page of a mailed link whose token is missing. */
export function IncompleteLink({ action }: { action: ComponentChildren }) {
  return (
    <AuthPage title={texts.incompleteTitle}>
      <Notice tone="wait">{texts.incompleteHint}</Notice>
      {action}
    </AuthPage>
  );
}

/** The link to single sign-on, if the cloud has it. `next` is a path of this application. */
export function SingleSignOn({ next, hint }: { next: string; hint?: string }) {
  const options = useAuthOptions();
  if (!options.data?.singleSignOn) return null;
  // The cloud redirects to a path of the host, which starts with the path of the application.
  const returnTo = basePath().replace(/\/$/, "") + next;
  return (
    <>
      <p class="auth-or faint small">
        <span>{texts.or}</span>
      </p>
      <a class="button wide" href={`v1/auth/oidc/start?returnTo=${encodeURIComponent(returnTo)}`}>
        {texts.singleSignOn}
      </a>
      {hint && <p class="faint small">{hint}</p>}
    </>
  );
}
