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
  focusSearch,
  toast,
  toastError,
  useShortcuts,
  useTheme,
  type IconName,
} from "../../shared/web/ui";
import { api, expectOrganization, type Schema } from "./api";
import { NewOrganizationForm } from "./parts/organization-form";
import { SignInForm } from "./parts/sign-in-form";
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

/** Announces to other tabs that this tab activated another organization. */
const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("svc-organization");

/**
 * Shows the pages to a signed-in user with an organization. Others get the sign-in page, or the form for a first
 * organization. The form of a page stays when the session ends: the user signs in again over it.
 */
export function SignedIn({ children }: { children: ComponentChildren }) {
  const [path, navigate] = useLocation();
  const queries = useQueryClient();
  const [expired, setExpired] = useState(false);
  const [own, setOwn] = useState<string>();
  const session = useQuery({
    queryKey: ["session"],
    queryFn: () => send(api.GET("/v1/auth/session")),
    staleTime: 30_000,
  });
  const organizations = useQuery({
    queryKey: ["organizations"],
    queryFn: () =>
      send(
        api.GET("/v1/organizations", {
          params: { query: { limit: 100, sortBy: "name", sortOrder: "asc" } },
        }),
      ),
    enabled: session.data !== undefined,
  });
  const signedIn = session.data !== undefined;
  const unauthenticated = !signedIn && session.error instanceof ApiError && session.error.status === 401;

  useEffect(() => {
    if (unauthenticated)
      navigate(`/sign-in?next=${encodeURIComponent(path + location.search)}`, {
        replace: true,
      });
  }, [unauthenticated]);
  useEffect(
    () =>
      onFailure((error) => {
        if (error.status === 401 && signedIn) setExpired(true);
        if (error.details.some((d) => d.field === "X-Svc-Organization"))
          void queries.invalidateQueries({ queryKey: ["session"] });
      }),
    [signedIn],
  );
  useEffect(() => {
    const changed = () => void queries.invalidateQueries({ queryKey: ["session"] });
    channel?.addEventListener("message", changed);
    return () => channel?.removeEventListener("message", changed);
  }, []);

  const active = session.data?.activeOrganizationId ?? undefined;
  const shown = own ?? active;
  expectOrganization(shown);
  useEffect(() => {
    if (own === undefined && active) setOwn(active);
  }, [active]);

  if (unauthenticated) return null;
  if (session.error && !signedIn)
    return (
      <Centered>
        <ErrorNotice error={session.error} onRetry={() => void session.refetch()} />
      </Centered>
    );
  if (organizations.error && !organizations.data)
    return (
      <Centered>
        <ErrorNotice error={organizations.error} onRetry={() => void organizations.refetch()} />
      </Centered>
    );
  if (!session.data || !organizations.data)
    return (
      <Centered>
        <Loading />
      </Centered>
    );

  const activate = async (id: string) => {
    await send(
      api.POST("/v1/organizations/{organizationId}/activate", {
        params: { path: { organizationId: id } },
      }),
    );
    channel?.postMessage(id);
    queries.setQueryData<Schema<"AuthSession">>(["session"], (now) => now && { ...now, activeOrganizationId: id });
    if (id !== shown) {
      setOwn(id);
      expectOrganization(id);
      queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
    }
    await queries.refetchQueries({ type: "active" });
  };
  const items = organizations.data.items;
  const organization = items.find((o) => o.id === shown);
  if (!organization) {
    return (
      <Centered>
        <FirstOrganization organizations={items} activate={activate} />
      </Centered>
    );
  }
  const context: SessionContext = {
    user: session.data.user,
    organizations: items,
    organization,
    activate,
  };
  const other = active !== shown ? (items.find((o) => o.id === active)?.name ?? active) : undefined;
  return (
    <Session.Provider value={context}>
      <Frame>
        {!context.user.emailVerified && <VerifyNotice />}
        {/* A page of another organization is another page: nothing of the old one stays. */}
        <div key={organization.id}>{children}</div>
      </Frame>
      {other && !expired && (
        <OtherTab other={other} onStay={() => activate(organization.id)} onFollow={() => activate(active!)} />
      )}
      {expired && (
        <Dialog title={texts.expiredTitle} closable={false} onClose={() => undefined}>
          <p>{texts.expiredHint}</p>
          <SignInForm
            email={context.user.email}
            onSignedIn={async () => {
              await activate(organization.id).catch(() => queries.refetchQueries({ queryKey: ["session"] }));
              setExpired(false);
            }}
          />
        </Dialog>
      )}
    </Session.Provider>
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
  const signOut = useSignOut();
  return (
    <Button kind="quiet" icon="signOut" onClick={signOut}>
      {texts.signOut}
    </Button>
  );
}

function useSignOut(): () => void {
  const { mutate } = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/sign-out")),
    // A new page load leaves no data of the user in memory.
    onSuccess: () => location.assign(new URL("sign-in", document.baseURI)),
    onError: toastError,
  });
  return () => mutate();
}

/** The navigation and the content of a page. */
function Frame({ children }: { children: ComponentChildren }) {
  const [path, navigate] = useLocation();
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const manages = useManages();
  const visible = pages.filter((p) => manages || !p.managers);
  const content = useRef<HTMLElement>(null);
  const at = path === "/" ? "/overview" : path;
  const current = visible.find((p) => at === p.path || at.startsWith(p.path + "/"));
  useShortcuts({
    ...Object.fromEntries(visible.map((p) => [`g ${p.key}`, () => navigate(p.path)])),
    "/": focusSearch,
    "?": () => setHelp(true),
    c: () => navigate("/profiles/new"),
  });
  useEffect(() => {
    setOpen(false);
    document.title = `${current?.title ?? texts.account} · ${texts.product}`;
    scrollTo(0, 0);
  }, [path.split("/")[1]]);
  return (
    <div class="frame">
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          content.current?.focus();
        }}
      >
        {texts.skip}
      </a>
      <header class="top-bar">
        <Button kind="quiet" icon="menu" aria-label={texts.menu} aria-expanded={open} onClick={() => setOpen(!open)} />
        <span class="strong">{current?.title ?? texts.account}</span>
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
      <main id="content" class="content" tabIndex={-1} ref={content}>
        {children}
      </main>
      {help && <ShortcutHelp pages={visible} onClose={() => setHelp(false)} />}
    </div>
  );
}

function OrganizationSwitcher() {
  const { organizations, organization, activate } = useSession();
  const [, navigate] = useLocation();
  const switchTo = (id: string) => activate(id).then(() => navigate("/overview"), toastError);
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
            onSelect: () => void switchTo(o.id),
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
  const [theme, setTheme] = useTheme();
  const signOut = useSignOut();
  const next = { system: "light", light: "dark", dark: "system" } as const;
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
        {
          label: texts.theme[theme],
          icon: "theme",
          onSelect: () => setTheme(next[theme]),
        },
        { label: texts.shortcuts, icon: "help", onSelect: onHelp },
        {
          label: texts.documentation,
          icon: "code",
          onSelect: () => void open(new URL("docs", document.baseURI), "_blank", "noreferrer"),
        },
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

function ShortcutHelp({ pages: visible, onClose }: { pages: typeof pages; onClose: () => void }) {
  const rows: [string, string][] = [
    ["/", texts.keys.search],
    ["?", texts.keys.help],
    ["c", texts.keys.create],
    ...visible.map((p): [string, string] => [`g ${p.key}`, texts.keys.go(p.title)]),
  ];
  return (
    <Dialog title={texts.shortcuts} onClose={onClose}>
      <dl class="facts">
        {rows.map(([keys, does]) => (
          <>
            <dt>
              {keys.split(" ").map((k) => (
                <>
                  <kbd>{k}</kbd>{" "}
                </>
              ))}
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}

function VerifyNotice() {
  const { mutate, isPending } = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/verify-email/resend")),
    onSuccess: () => toast(texts.sent),
    onError: toastError,
  });
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
  return (
    <Dialog
      title={texts.otherTab(other)}
      closable={false}
      onClose={() => undefined}
      footer={
        <>
          <Button onClick={() => void onFollow().catch(toastError)}>{texts.follow(other)}</Button>
          <Button kind="primary" onClick={() => void onStay().catch(toastError)}>
            {texts.stay(organization.name)}
          </Button>
        </>
      }
    >
      <p>{texts.otherTabHint(organization.name)}</p>
    </Dialog>
  );
}
