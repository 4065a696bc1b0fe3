import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Schema } from "./api";

/** The signed-in user and the active organization, for all pages behind the sign-in. */
export interface SessionContext {
  user: Schema<"User">;
  organizations: Schema<"Organization">[];
  organization: Schema<"Organization">;
  /** Activates an organization. If it is another one, its overview opens. */
  activate: (id: string) => Promise<void>;
}

export const Session = createContext<SessionContext | undefined>(undefined);

/** Returns the session. Only components of pages behind the sign-in may call it. */
export function useSession(): SessionContext {
  const session = useContext(Session);
  if (!session) throw new Error("There is no session.");
  return session;
}

/** Whether the user may manage the organization: keys, members, billing and the audit log. */
export function useManages(): boolean {
  return useSession().organization.role !== "member";
}
