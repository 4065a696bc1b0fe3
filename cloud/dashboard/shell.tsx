import { useMutation, useQuery, useQueryClient } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { ApiError } from "../../shared/web/api/errors";
import { onFailure, send } from "../../shared/web/api/client";
import {
  Button,
  Dialog,
  ErrorNotice,
  Icon,
  Loading,
  Menu,
  Notice,
  ShortcutHelp,
  SkipLink,
  focusSearch,
  toast,
  toastError,
  useSharedItems,
  useShortcuts,
  type IconName,
} from "../../shared/web/ui";
import { api, expectOrganization, type Schema } from "./api";
import { announce, leave, onSessionChange, useSendsMail, useSignOut, withNext } from "./parts/auth";
import { NewOrganizationForm } from "./parts/organization-form";
import { SignInForm } from "./parts/sign-in-form";
import { allPages } from "./parts/team";
import { Session, useManages, useSession, type SessionContext } from "./session";
import { texts } from "./texts/shell";

/** The pages of the navigation. `key` is the second key of the shortcut `g ...`. */
const pages: {
  path: string;
  title: string;
  icon: IconName;
  key: string;
  managers?: boolean;
}[] = [
  { path: "/overview", title: texts.pages.overview, icon: "home", key: "o" },
  {
    path: "/sessions",
    title: texts.pages.sessions,
    icon: "activity",
    key: "s",
  },
  { path: "/profiles", title: texts.pages.profiles, icon: "profile", key: "p" },
  { path: "/machines", title: texts.pages.machines, icon: "server", key: "m" },
  { path: "/connect", title: texts.pages.connect, icon: "plug", key: "c" },
  {
    path: "/settings",
    title: texts.pages.settings,
    icon: "settings",
    key: "t",
  },
  {
    path: "/billing",
    title: texts.pages.billing,
    icon: "card",
    key: "b",
    managers: true,
  },
  {
    path: "/audit-log",
    title: texts.pages.auditLog,
    icon: "log",
    key: "a",
    managers: true,
  },
];

const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401;

/** Shows the pages to a signed-in user with an organization. Others get the sign-in page, or a first organization. */
export function SignedIn({ children }: { children: ComponentChildren }) {
  const [path, navigate] = useLocation();
  const session = useQuery({
    queryKey: ["session"],
    queryFn: () => send(api.GET("/v1/auth/session")),
    staleTime: 30_000,
  });
  const organizations = useQuery({
    queryKey: ["organizations"],
    queryFn: () =>
      allPages((page) =>
        send(
          api.GET("/v1/organizations", {
            params: { query: { page, limit: 100, sortBy: "name", sortOrder: "asc" } },
          }),
        ),
      ),
    enabled: session.data !== undefined,
  });
  const failed = [session, organizations].find((query) => query.error && query.data === undefined);
  const signedOut = isSignedOut(failed?.error);
  const replaced = useReplacedUser(session.data?.user.id);
  useEffect(() => {
    if (signedOut) navigate(withNext("/sign-in", path + location.search), { replace: true });
  }, [signedOut]);

  if (signedOut || replaced) return null;
  if (failed)
    return (
      <Centered>
        <ErrorNotice error={failed.error} onRetry={() => void failed.refetch()} />
      </Centered>
    );
  if (!session.data || !organizations.data)
    return (
      <Centered>
        <Loading />
      </Centered>
    );
  return (
    <InOrganization session={session.data} organizations={organizations.data}>
      {children}
    </InOrganization>
  );
}

/** Whether another user has signed in meanwhile. The page loads again: nothing of the first user stays in memory. */
function useReplacedUser(id: string | undefined): boolean {
  const first = useRef(id);
  first.current ??= id;
  const replaced = id !== undefined && id !== first.current;
  useEffect(() => {
    if (replaced) location.assign(new URL("overview", document.baseURI));
  }, [replaced]);
  return replaced;
}

/**
 * Follows the session, which all tabs share. Returns whether it has ended: the form of a page stays, and the user signs
 * in again over it.
 */
function useExpiry(): [boolean, (expired: boolean) => void] {
  const queries = useQueryClient();
  const [expired, setExpired] = useState(false);
  useEffect(
    () =>
      onFailure((error) => {
        if (error.status === 401) setExpired(true);
        // The role may have been taken away.
        if (error.status === 403) void queries.invalidateQueries({ queryKey: ["organizations"] });
        if (error.details.some((d) => d.field === "X-Svc-Organization"))
          void queries.invalidateQueries({ queryKey: ["session"] });
      }),
    [],
  );
  useEffect(
    () =>
      onSessionChange((change) => {
        if (change === "ended") leave();
        else void queries.invalidateQueries({ queryKey: ["session"] });
      }),
    [],
  );
  return [expired, setExpired];
}

/** The organization that this tab shows, and a function that activates one. */
function useOrganization(active: string | undefined): [string | undefined, (id: string) => Promise<void>] {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [own, setOwn] = useState(active);
  const shown = own ?? active;
  expectOrganization(shown);
  useEffect(() => {
    if (own === undefined && active) setOwn(active);
  }, [active]);
  const activate = async (id: string) => {
    const activated = await send(
      api.POST("/v1/organizations/{organizationId}/activate", {
        params: { path: { organizationId: id } },
      }),
    );
    announce("changed");
    queries.setQueryData<Schema<"Organization">[]>(["organizations"], (now) =>
      now?.some((o) => o.id === id) ? now : [...(now ?? []), activated],
    );
    queries.setQueryData<Schema<"AuthSession">>(["session"], (now) => now && { ...now, activeOrganizationId: id });
    if (id !== shown) {
      if (shown) navigate("/overview");
      setOwn(id);
      expectOrganization(id);
      const kept = ["session", "organizations"];
      queries.removeQueries({ predicate: ({ queryKey }) => !kept.includes(String(queryKey[0])) });
    }
    await queries.refetchQueries({ type: "active" });
  };
  return [shown, activate];
}

function InOrganization({
  session,
  organizations,
  children,
}: {
  session: Schema<"AuthSession">;
  organizations: Schema<"Organization">[];
  children: ComponentChildren;
}) {
  const active = session.activeOrganizationId ?? undefined;
  const [shown, activate] = useOrganization(active);
  const [expired, setExpired] = useExpiry();
  const organization = organizations.find((o) => o.id === shown);
  if (!organization)
    return (
      <Centered>
        <FirstOrganization organizations={organizations} activate={activate} />
      </Centered>
    );
  const { user } = session;
  const other = active !== shown ? (organizations.find((o) => o.id === active)?.name ?? active) : undefined;
  return (
    <Session.Provider value={{ user, organizations, organization, activate }}>
      <Frame>
        {!user.emailVerified && <VerifyNotice />}
        {/* A page of another organization is another page: nothing of the old one stays. */}
        <div key={organization.id}>{children}</div>
      </Frame>
      {other && !expired && (
        <OtherTab other={other} onStay={() => activate(organization.id)} onFollow={() => activate(active!)} />
      )}
      {expired && <Renewal onRenewed={() => setExpired(false)} />}
    </Session.Provider>
  );
}

/** Signs in again over the page after the session has ended. */
function Renewal({ onRenewed }: { onRenewed: () => void }) {
  const { user, organization, activate } = useSession();
  const queries = useQueryClient();
  const [path] = useLocation();
  return (
    <Dialog title={texts.expiredTitle} closable={false} onClose={() => undefined}>
      <p>{texts.expiredHint}</p>
      <SignInForm
        email={user.email}
        onSignedIn={async () => {
          await activate(organization.id).catch(() => queries.refetchQueries({ type: "active" }));
          onRenewed();
        }}
      />
      <Button kind="quiet" wide onClick={() => leave(path + location.search)}>
        {texts.otherSignIn}
      </Button>
    </Dialog>
  );
}

/** A narrow column for pages without navigation. */
export function Centered({ children }: { children: ComponentChildren }) {
  return (
    <main class="centered" id="content">
      <p class="brand">{texts.product}</p>
      {children}
    </main>
  );
}

function FirstOrganization({
  organizations,
  activate,
}: {
  organizations: SessionContext["organizations"];
  activate: (id: string) => Promise<void>;
}) {
  return (
    <section class="panel stack">
      <h1>{texts.noOrganization}</h1>
      <p class="faint">{texts.noOrganizationHint}</p>
      {organizations.map((o) => (
        <Button key={o.id} onClick={() => void activate(o.id).catch(toastError)}>
          {texts.switchTo(o.name)}
        </Button>
      ))}
      <NewOrganizationForm onCreated={activate} />
      <SignOutButton />
    </section>
  );
}

function SignOutButton() {
  const { signOut, busy } = useSignOut();
  return (
    <Button kind="quiet" icon="signOut" busy={busy} onClick={signOut}>
      {texts.signOut}
    </Button>
  );
}

/** The navigation and the content of a page. */
function Frame({ children }: { children: ComponentChildren }) {
  const [path, navigate] = useLocation();
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const manages = useManages();
  const visible = pages.filter((p) => manages || !p.managers);
  const at = path === "/" ? "/overview" : path;
  const current = pages.find((p) => at === p.path || at.startsWith(p.path + "/"));
  const title = current?.title ?? (/^\/(account|organizations)\b/.test(at) ? texts.account : texts.notFound);
  useShortcuts({
    ...Object.fromEntries(visible.map((p) => [`g ${p.key}`, () => navigate(p.path)])),
    "/": focusSearch,
    "?": () => setHelp(true),
    c: () => navigate("/profiles/new"),
  });
  useEffect(() => {
    setOpen(false);
    document.title = `${title} · ${texts.product}`;
    scrollTo(0, 0);
  }, [path.split("/")[1]]);
  return (
    <div class="frame">
      <SkipLink label={texts.skip} />
      <header class="top-bar">
        <Button kind="quiet" icon="menu" aria-label={texts.menu} aria-expanded={open} onClick={() => setOpen(!open)} />
        <span class="strong">{title}</span>
      </header>
      <div class={`sidebar ${open ? "open" : ""}`}>
        <OrganizationSwitcher />
        <nav aria-label={texts.navigation}>
          {visible.map((p) => (
            <Link key={p.path} href={p.path} aria-current={p === current ? "page" : undefined}>
              <Icon name={p.icon} />
              {p.title}
            </Link>
          ))}
        </nav>
        <UserMenu onHelp={() => setHelp(true)} />
      </div>
      {open && <div class="scrim" onClick={() => setOpen(false)} />}
      <main id="content" class="content" tabIndex={-1}>
        {children}
      </main>
      {help && <ShortcutHelp title={texts.shortcuts} rows={shortcutsOf(visible)} onClose={() => setHelp(false)} />}
    </div>
  );
}

/** The keys and what they do. */
function shortcutsOf(visible: typeof pages): [string, string][] {
  return [
    ["/", texts.keys.search],
    ["?", texts.keys.help],
    ["c", texts.keys.create],
    ...visible.map((p): [string, string] => [`g ${p.key}`, texts.keys.go(p.title)]),
  ];
}

function OrganizationSwitcher() {
  const { organizations, organization, activate } = useSession();
  const [, navigate] = useLocation();
  return (
    <Menu
      label={`${texts.organization}: ${organization.name}`}
      side="left"
      buttonClass="switcher wide"
      items={[
        ...organizations
          .filter((o) => o.id !== organization.id)
          .map((o) => ({
            label: o.name,
            icon: "building" as const,
            onSelect: () => void activate(o.id).catch(toastError),
          })),
        {
          label: texts.newOrganization,
          icon: "plus",
          onSelect: () => navigate("/organizations/new"),
        },
      ]}
    >
      <Icon name="building" />
      <span class="grow truncate">{organization.name}</span>
      <Icon name="down" />
    </Menu>
  );
}

function UserMenu({ onHelp }: { onHelp: () => void }) {
  const { user } = useSession();
  const [, navigate] = useLocation();
  const { signOut } = useSignOut();
  const shared = useSharedItems(texts, onHelp);
  return (
    <Menu
      label={`${texts.account}: ${user.email}`}
      side="up"
      buttonClass="switcher wide"
      items={[
        {
          label: texts.account,
          icon: "user",
          onSelect: () => navigate("/account"),
        },
        ...shared,
        "separator",
        { label: texts.signOut, icon: "signOut", onSelect: signOut },
      ]}
    >
      <Icon name="user" />
      <span class="grow truncate">{user.name || user.email}</span>
      <Icon name="up" />
    </Menu>
  );
}

function VerifyNotice() {
  const { mutate, isPending } = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/verify-email/resend")),
    onSuccess: () => toast(texts.sent),
    onError: toastError,
  });
  if (!useSendsMail()) return null;
  return (
    <div class="above">
      <Notice
        tone="wait"
        title={texts.verifyNotice}
        action={
          <Button size="small" busy={isPending} onClick={() => mutate()}>
            {texts.sendAgain}
          </Button>
        }
      >
        {texts.verifyHint}
      </Notice>
    </div>
  );
}

function OtherTab({
  other,
  onStay,
  onFollow,
}: {
  other: string;
  onStay: () => Promise<void>;
  onFollow: () => Promise<void>;
}) {
  const { organization } = useSession();
  const { mutate, isPending, error } = useMutation({ mutationFn: (act: () => Promise<void>) => act() });
  return (
    <Dialog
      title={texts.otherTab(other)}
      closable={false}
      onClose={() => undefined}
      footer={
        <>
          <Button disabled={isPending} onClick={() => mutate(onFollow)}>
            {texts.follow(other)}
          </Button>
          <Button kind="primary" disabled={isPending} onClick={() => mutate(onStay)}>
            {texts.stay(organization.name)}
          </Button>
        </>
      }
    >
      <p>{texts.otherTabHint(organization.name)}</p>
      {error && <ErrorNotice error={error} />}
    </Dialog>
  );
}
