import type { Schema } from "../api";

/** The texts of the account page and of the page for a new organization. */
export const texts = {
  title: "Account",
  profile: "Profile",
  name: "Name",
  nameHint: "Members of your organizations see it.",
  save: "Save",
  saved: "Name saved",
  email: "E-mail address",
  verified: "Verified",
  unverified: "Not verified",
  unverifiedHint:
    "Open the link in the e-mail that we sent you. You need a verified address to accept invitations and to create a second organization.",
  noMailHint:
    "This service sends no e-mail. An operator can verify the address: svc-cloud users verify. You need a verified address to create a second organization.",
  sendAgain: "Send the e-mail again",
  sent: (email: string) => `E-mail sent to ${email}`,
  since: "Account since",

  password: "Password",
  passwordHint:
    "Changing the password ends your other dashboard sessions and invalidates links in earlier e-mails. Keys of organizations stay valid.",
  currentPassword: "Current password",
  newPassword: "New password",
  repeatPassword: "Repeat the new password",
  different: "The passwords are different.",
  changePassword: "Change password",
  passwordChanged: "Password changed. Your other sessions have ended.",
  noPassword: "You forgot the password, or your account has none because you use single sign-on?",
  sendReset: "Send a reset link",
  resetSent: (email: string) =>
    `If ${email} can have a password, the e-mail is on its way. Its link works for one hour.`,

  sessions: "Dashboard sessions",
  sessionsHint:
    "Browsers and programs that are signed in as you. End a session that you do not recognize, and change your password.",
  device: "Device",
  address: "IP address",
  signedIn: "Signed in",
  lastUse: "Last use",
  expires: "Expires",
  current: "This session",
  unknownDevice: "Unknown program",
  on: (browser: string, system: string) => `${browser} on ${system}`,
  end: "End session",
  endOf: (device: string) => `End the session of ${device}`,
  endHint: (device: string, address: string) => `${device} (${address}) must sign in again.`,
  ended: "Session ended",
  signOut: "Sign out",
  everywhere: "Sign out everywhere",
  everywhereTitle: "Sign out everywhere?",
  everywhereHint:
    "All your dashboard sessions end, including this one, and sign-in links become invalid. Running browser sessions and the keys of organizations are not affected.",
  noSessions: "No sessions on this page",
  noSessionsHint: "Sessions ended meanwhile. Go back to the first page.",
  firstPage: "First page",

  tokens: {
    title: "Access tokens",
    intro: (organization: string) =>
      `Programs act for you in ${organization} with an access token, within its scopes and your role. The service stores only a hash, so a token is shown once.`,
    create: "Create access token",
    name: "Name",
    nameHint: "For example the program that uses it",
    scopes: "Scopes",
    scopesHint: "Select only what the program needs.",
    scopeHints: {
      "profiles:read": "read profiles and browser builds",
      "profiles:write": "also create, change and delete profiles",
      "sessions:read": "read sessions, machines and license usage",
      "keys:write": "manage organization keys",
      "members:write": "manage members and invitations, at most as an admin",
      "billing:read": "read the plan, add-ons and invoices",
    } satisfies Record<Schema<"AccessTokenScope">, string>,
    expiryHint: "In your time zone, at most one year from now. Empty: 90 days.",
    created: "Store the new access token",
    full: "Access token",
    use: "Send it in the header Authorization: Bearer.",
    stored: "I have stored the token",
    empty: "No access tokens",
    emptyHint: "Create one for a program that manages profiles, keys or members for you.",
    neverUsed: "Never",
    revoke: "Revoke",
    revokeTitle: (name: string) => `Revoke ${name}`,
    revokeHint: "Programs that use this token are refused from the next request on. This cannot be undone.",
    revoked: (name: string) => `${name} is revoked`,
  },

  theme: "Theme",
  themeHint: "Applies to this browser.",
  themes: { system: "System", light: "Light", dark: "Dark" },

  newOrganization: "New organization",
  newOrganizationHint:
    "Profiles, keys, members and billing belong to an organization. You become its owner. It starts on the free plan.",
  secondOrganization: "A second organization requires a verified e-mail address. Verify your address first.",
  createOrganization: "Create organization",
  organizationName: "Name",
  organizationNameHint: "For example your company or project.",
  cancel: "Cancel",
};
