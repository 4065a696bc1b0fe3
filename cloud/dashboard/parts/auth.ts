import { useMutation, useQuery, useQueryClient } from "@tanstack/preact-query";
import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { toastError } from "../../../shared/web/ui";
import { api, expectOrganization, type Schema } from "../api";

/** What sign-in pages need to know: who can sign up, and whether single sign-on is available. */
export function useAuthOptions() {
  return useQuery({
    queryKey: ["auth-options"],
    queryFn: () => send(api.GET("/v1/auth/options")),
    staleTime: 60_000,
  });
}

/** Whether the service sends e-mail; true while it is unknown. */
export function useSendsMail(): boolean {
  return useAuthOptions().data?.sendsMail ?? true;
}

/** The session of the visitor of a public page. `user` is undefined while it is unknown, and without a session. */
export function useVisitor() {
  // Uses the session of the cookie, regardless of the organization that this tab showed.
  expectOrganization(undefined);
  const query = useQuery({
    queryKey: ["session"],
    queryFn: () => send(api.GET("/v1/auth/session")),
    staleTime: 0,
  });
  const signedOut = query.error instanceof ApiError && query.error.status === 401;
  return {
    query,
    user: signedOut || query.isFetching ? undefined : query.data?.user,
    signedOut,
  };
}

/** Returns a function that stores a new session and removes the data of an earlier user. */
export function useBegin(): (signIn: Schema<"SignIn">) => void {
  const queries = useQueryClient();
  return ({ expiresAt, user, activeOrganizationId }) => {
    expectOrganization(undefined);
    announce("changed");
    void queries.cancelQueries({ queryKey: ["session"] });
    queries.removeQueries({
      predicate: ({ queryKey: [first] }) => first !== "session" && first !== "auth-options",
    });
    // The token of the answer is in the cookie; scripts need not keep it.
    queries.setQueryData(["session"], {
      expiresAt,
      user,
      activeOrganizationId,
    });
  };
}

const defaultPage = "/overview";

/** What happened to the session, which all tabs of the browser share. */
type SessionChange = "changed" | "ended";

const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("svc-session");

/** Notifies the other tabs that the session has another user or organization, or has ended. */
export function announce(change: SessionChange): void {
  channel?.postMessage(change);
}

/** Calls the listener for the changes by other tabs. Returns a function that removes it. */
export function onSessionChange(listener: (change: SessionChange) => void): () => void {
  const heard = (event: MessageEvent<SessionChange>) => listener(event.data);
  channel?.addEventListener("message", heard);
  return () => channel?.removeEventListener("message", heard);
}

/** Loads the sign-in page. A new page load leaves no data of the user in memory. */
export function leave(next = defaultPage): void {
  location.assign(new URL(withNext("sign-in", next), document.baseURI));
}

/** Ends the session, also for the other tabs, and loads the sign-in page. */
export function useSignOut(): { signOut: () => void; busy: boolean } {
  const { mutate, isPending } = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/sign-out")),
    onSuccess: () => {
      announce("ended");
      leave();
    },
    onError: toastError,
  });
  return { signOut: () => mutate(), busy: isPending };
}

/**
 * Returns the page to open after the sign-in: the path if it is one of this application, otherwise the overview.
 * It follows the rule of `returnTo` in the API.
 */
export function safeNext(next: string | undefined): string {
  const local =
    next !== undefined &&
    next.length <= 1024 &&
    /^\/([^/\\\x00-\x20\x7f][^\\\x00-\x20\x7f]*)?$/.test(next) &&
    !/^\/sign-(in|up)\b/.test(next);
  return local ? next : defaultPage;
}

/** Returns the address with the page to open next, unless that is the default. */
export function withNext(path: string, next: string): string {
  return next === defaultPage ? path : `${path}?next=${encodeURIComponent(next)}`;
}

/** Returns the token of the link, which may be in the fragment or in the query, and removes it from the address. */
function takeToken(): string {
  const token =
    new URLSearchParams(location.hash.slice(1)).get("token") ?? new URLSearchParams(location.search).get("token") ?? "";
  if (location.hash || location.search) history.replaceState(history.state, "", location.pathname);
  return token;
}

/** The token of the link that opened the page. Opening another link in the same tab replaces it. */
export function useLinkToken(): string {
  const [token, setToken] = useState(takeToken);
  useEffect(() => {
    const changed = () => {
      const next = takeToken();
      if (next) setToken(next);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return token;
}
