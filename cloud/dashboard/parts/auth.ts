import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { api, expectOrganization, type Schema } from "../api";

/** What sign-in pages need to know: who can sign up, and whether single sign-on is available. */
export function useAuthOptions() {
  return useQuery({
    queryKey: ["auth-options"],
    queryFn: () => send(api.GET("/v1/auth/options")),
    staleTime: 60_000,
  });
}

/** The session of the visitor of a public page. `user` is undefined while it is unknown and if nobody is signed in. */
export function useVisitor() {
  // The session of the cookie counts here, whatever organization this tab showed.
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

/** Returns a function that keeps a new session and forgets the data of an earlier user. */
export function useBegin(): (signIn: Schema<"SignIn">) => void {
  const queries = useQueryClient();
  return ({ expiresAt, user, activeOrganizationId }) => {
    expectOrganization(undefined);
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
