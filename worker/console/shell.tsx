import { useMutation, useQuery, useQueryClient } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { onFailure, send } from "../../shared/web/api/client";
import { ApiError } from "../../shared/web/api/errors";
import {
  Badge,
  Dialog,
  ErrorNotice,
  Icon,
  Loading,
  Menu,
  Notice,
  ShortcutHelp,
  SkipLink,
  focusSearch,
  toastError,
  useSharedItems,
  useShortcuts,
  type IconName,
} from "../../shared/web/ui";
import { api, rememberKey, type Schema } from "./api";
import { liveQuery } from "./live";
import { SignInForm } from "./parts/sign-in-form";
import { texts } from "./texts/shell";

/** The pages of the navigation. `key` is the second key of the shortcut `g ...`. */
const pages: { path: string; title: string; icon: IconName; key: string }[] = [
  {
    path: "/sessions",
    title: texts.pages.sessions,
    icon: "activity",
    key: "s",
  },
  { path: "/launch", title: texts.pages.launch, icon: "play", key: "l" },
  { path: "/machine", title: texts.pages.machine, icon: "server", key: "m" },
];

/** The keyboard shortcuts and what they do. */
const shortcuts: [keys: string, action: string][] = [
  ["/", texts.keys.search],
  ["?", texts.keys.help],
  ...pages.map((p): [string, string] => [`g ${p.key}`, texts.keys.go(p.title)]),
];

/**
 * Shows the pages to a user with the worker key or its cookie; others get the sign-in form. The page stays when the
 * worker stops accepting either: the user signs in again over it.
 */
export function SignedIn({ children }: { children: ComponentChildren }) {
  const queries = useQueryClient();
  const live = useQuery(liveQuery);
  const [expired, setExpired] = useState<ApiError>();
  const signedIn = live.data !== undefined;
  useEffect(
    () =>
      onFailure((error) => {
        if (error.status === 401 && signedIn) setExpired((first) => first ?? error);
      }),
    [signedIn],
  );
  useEffect(() => {
    if (!signedIn) document.title = `${texts.signInTitle} · ${texts.product}`;
  }, [signedIn]);

  if (!live.data) {
    if (isRefusal(live.error)) return <SignIn onSignedIn={(data) => queries.setQueryData(liveQuery.queryKey, data)} />;
    return (
      <Centered>
        {live.error ? <ErrorNotice error={live.error} onRetry={() => void live.refetch()} /> : <Loading />}
      </Centered>
    );
  }
  const renewed = () => {
    setExpired(undefined);
    void queries.invalidateQueries();
  };
  return (
    <>
      <Frame live={live.data} reachable={!live.error || isRefusal(live.error)}>
        {children}
      </Frame>
      {expired && <Renewal error={expired} onSignedIn={renewed} />}
    </>
  );
}

/** Whether the worker answered, but accepts no key or cookie of this page. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && error.status === 401;

/** A narrow column for pages without navigation. */
function Centered({ children }: { children: ComponentChildren }) {
  return (
    <main class="centered" id="content">
      <p class="brand">
        {texts.product} <span>{texts.application}</span>
      </p>
      {children}
    </main>
  );
}

function SignIn({ onSignedIn }: { onSignedIn: (live: Schema<"FleetLive">) => void }) {
  return (
    <Centered>
      <section class="panel stack">
        <h1>{texts.signInTitle}</h1>
        <p class="faint">{texts.signInHint}</p>
        <SignInForm onSignedIn={onSignedIn} />
      </section>
      <p class="row sign-in-links">
        <a href="docs">{texts.documentation}</a>
      </p>
    </Centered>
  );
}

function Renewal({ error, onSignedIn }: { error: ApiError; onSignedIn: () => void }) {
  return (
    <Dialog title={texts.expiredTitle} closable={false} onClose={() => undefined}>
      <Notice tone="wait" title={error.message}>
        {texts.expiredHint}
      </Notice>
      <SignInForm onSignedIn={onSignedIn} />
    </Dialog>
  );
}

/** The navigation and the content of a page. */
function Frame({
  live,
  reachable,
  children,
}: {
  live: Schema<"FleetLive">;
  reachable: boolean;
  children: ComponentChildren;
}) {
  const [path, navigate] = useLocation();
  const [help, setHelp] = useState(false);
  const at = path === "/" ? "/sessions" : path;
  const current = pages.find((p) => at === p.path || at.startsWith(`${p.path}/`));
  useShortcuts({
    ...Object.fromEntries(pages.map((p) => [`g ${p.key}`, () => navigate(p.path)])),
    "/": focusSearch,
    "?": () => setHelp(true),
  });
  useEffect(() => {
    document.title = `${current?.title ?? texts.notFound} · ${texts.product} ${texts.application}`;
    scrollTo(0, 0);
  }, [current?.path]);
  return (
    <div class="frame">
      <SkipLink label={texts.skip} />
      <header class="top-bar">
        <Link href="/sessions" class="brand" aria-label={texts.home}>
          {texts.product} <span>{texts.application}</span>
        </Link>
        <nav aria-label={texts.navigation}>
          {pages.map((p) => (
            <Link key={p.path} href={p.path} aria-current={p === current ? "page" : undefined}>
              <Icon name={p.icon} />
              {p.title}
            </Link>
          ))}
        </nav>
        <div class="row state">
          <State live={live} reachable={reachable} />
          <MainMenu onHelp={() => setHelp(true)} />
        </div>
      </header>
      <main id="content" class="content" tabIndex={-1}>
        {children}
      </main>
      {help && <ShortcutHelp title={texts.shortcuts} rows={shortcuts} onClose={() => setHelp(false)} />}
    </div>
  );
}

/** Whether the worker accepts launches, in a few words. */
function State({ live, reachable }: { live: Schema<"FleetLive">; reachable: boolean }) {
  if (!reachable)
    return (
      <Badge tone="bad" dot>
        {texts.unreachable}
      </Badge>
    );
  return (
    <>
      <span class="faint numeric running">{texts.running(live.activeSessions)}</span>
      <Badge tone={live.isAvailable ? "good" : "wait"} dot>
        {live.isAvailable ? texts.available : texts.reasonName(live.reason)}
      </Badge>
    </>
  );
}

function MainMenu({ onHelp }: { onHelp: () => void }) {
  const signOut = useSignOut();
  const shared = useSharedItems(texts, onHelp);
  return (
    <Menu
      label={texts.menu}
      icon="menu"
      items={[...shared, "separator", { label: texts.signOut, icon: "signOut", onSelect: signOut }]}
    />
  );
}

function useSignOut(): () => void {
  const { mutate } = useMutation({
    mutationFn: () => send(api.DELETE("/console/session")),
    onSuccess: () => {
      rememberKey(undefined);
      // A new page load leaves no data of the worker in memory.
      history.replaceState(null, "", new URL(".", document.baseURI));
      location.reload();
    },
    onError: toastError,
  });
  return () => mutate();
}
