type Details = Record<string, unknown>;

const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");
const quoted = (value: unknown): string => (text(value) ? ` "${text(value)}"` : "");
const fields = (value: unknown): string =>
  Array.isArray(value) && value.length ? ` (${value.map(text).join(", ")})` : "";

const ofAccount = (value: unknown): string => (text(value) ? ` of the service account${quoted(value)}` : "");

/** The name of each action, and what its event says after the name of the actor. */
const actions: Record<string, { label: string; says: (details: Details) => string }> = {
  "apiKey.created": {
    label: "Key created",
    says: (d) => `created the key${quoted(d["name"])}`,
  },
  "apiKey.updated": {
    label: "Key updated",
    says: (d) => `updated the key${quoted(d["name"])}`,
  },
  "apiKey.rotated": {
    label: "Key rotated",
    says: (d) => `created a replacement for the key${quoted(d["name"])}`,
  },
  "apiKey.revoked": {
    label: "Key revoked",
    says: (d) => `revoked the key${quoted(d["name"])}`,
  },
  "accessToken.created": {
    label: "Access token created",
    says: (d) => `created the access token${quoted(d["name"])}${ofAccount(d["serviceAccount"])}`,
  },
  "accessToken.revoked": {
    label: "Access token revoked",
    says: (d) => `revoked the access token${quoted(d["name"])}${ofAccount(d["serviceAccount"])}`,
  },
  "serviceAccount.created": {
    label: "Service account created",
    says: (d) => `created the service account${quoted(d["name"])}`,
  },
  "serviceAccount.updated": {
    label: "Service account updated",
    says: (d) => `updated the service account${quoted(d["name"])}`,
  },
  "serviceAccount.deleted": {
    label: "Service account deleted",
    says: (d) => `deleted the service account${quoted(d["name"])}`,
  },
  "member.joined": {
    label: "Member joined",
    says: (d) => `joined as ${text(d["role"])}`,
  },
  "member.roleChanged": {
    label: "Role changed",
    says: (d) => `changed the role of a member from ${text(d["from"])} to ${text(d["to"])}`,
  },
  "member.removed": {
    label: "Member removed",
    says: (d) => `removed a member with the role ${text(d["role"])}`,
  },
  "member.left": { label: "Member left", says: () => "left the organization" },
  "invitation.created": {
    label: "Invitation sent",
    says: (d) => `invited ${text(d["email"])} as ${text(d["role"])}`,
  },
  "invitation.revoked": {
    label: "Invitation revoked",
    says: (d) => `revoked the invitation of ${text(d["email"])}`,
  },
  "profile.created": {
    label: "Profile created",
    says: (d) => `created the profile${quoted(d["name"])}`,
  },
  "profile.updated": {
    label: "Profile updated",
    says: (d) => `updated the profile${quoted(d["name"])}${fields(d["fields"])}`,
  },
  "profile.duplicated": {
    label: "Profile duplicated",
    says: (d) => `duplicated a profile as${quoted(d["name"])}`,
  },
  "profile.deleted": {
    label: "Profile deleted",
    says: (d) => `deleted the profile${quoted(d["name"])}`,
  },
  "profile.dataRestored": {
    label: "Profile data restored",
    says: (d) => `restored the version ${text(d["versionId"])} of a profile's data`,
  },
  "profile.dataVersionDeleted": {
    label: "Profile data version deleted",
    says: (d) => `deleted the version ${text(d["versionId"])} of a profile's data`,
  },
  "secret.created": {
    label: "Secret created",
    says: (d) => `created the secret${quoted(d["name"])}`,
  },
  "secret.updated": {
    label: "Secret updated",
    says: (d) => `updated the secret${quoted(d["name"])}${fields(d["fields"])}`,
  },
  "secret.deleted": {
    label: "Secret deleted",
    says: (d) => `deleted the secret${quoted(d["name"])}`,
  },
  "secret.used": {
    label: "Secret used",
    says: (d) => `used the ${text(d["field"])} of the secret${quoted(d["name"])} at ${text(d["origin"])}`,
  },
  "webhook.created": {
    label: "Webhook created",
    says: (d) => `created a webhook endpoint at ${text(d["host"])}`,
  },
  "webhook.updated": {
    label: "Webhook updated",
    says: (d) => `updated the webhook endpoint at ${text(d["host"])}${fields(d["fields"])}`,
  },
  "webhook.secretRotated": {
    label: "Webhook secret rotated",
    says: (d) => `rotated the secret of the webhook endpoint at ${text(d["host"])}`,
  },
  "webhook.deleted": {
    label: "Webhook deleted",
    says: (d) => `deleted the webhook endpoint at ${text(d["host"])}`,
  },
  "organization.created": {
    label: "Organization created",
    says: (d) => `created the organization${quoted(d["name"])}`,
  },
  "organization.updated": {
    label: "Organization updated",
    says: (d) => `changed the name or the slug to${quoted(d["name"])} (${text(d["slug"])})`,
  },
  "organization.deleted": {
    label: "Organization deleted",
    says: (d) => `deleted the organization${quoted(d["name"])}`,
  },
  "organization.suspended": {
    label: "Organization suspended",
    says: () => "suspended the organization",
  },
  "organization.resumed": {
    label: "Organization resumed",
    says: () => "ended the suspension of the organization",
  },
  "subscription.checkedOut": {
    label: "Checkout started",
    says: (d) => `started a subscription to the plan${quoted(d["plan"])}`,
  },
  "subscription.planChanged": {
    label: "Plan changed",
    says: (d) => `changed the plan to${quoted(d["plan"])}`,
  },
  "subscription.planAssigned": {
    label: "Plan assigned",
    says: (d) => `assigned the plan${quoted(d["plan"])}`,
  },
  "subscription.canceled": {
    label: "Plan canceled",
    says: () => "canceled the plan at the end of the period",
  },
  "subscription.resumed": {
    label: "Plan resumed",
    says: () => "withdrew the cancellation of the plan",
  },
  "subscription.renewed": {
    label: "Plan renewed",
    says: (d) => `renewed the plan${quoted(d["plan"])}`,
  },
  "subscription.ended": {
    label: "Plan ended",
    says: () => "ended the paid plan",
  },
  "subscription.changed": {
    label: "Subscription changed",
    says: (d) => `received a change of the subscription: plan${quoted(d["plan"])}, status ${text(d["status"])}`,
  },
  "subscription.addOnAdded": {
    label: "Add-on bought",
    says: (d) => `bought the add-on${quoted(d["addOn"])}, quantity ${text(d["quantity"])}`,
  },
  "subscription.addOnRemoved": {
    label: "Add-on removed",
    says: () => "removed an add-on",
  },
  "invoice.changed": {
    label: "Invoice changed",
    says: (d) => `received an invoice with the status ${text(d["status"])}`,
  },
  "user.disabled": {
    label: "User disabled",
    says: () => "disabled the account of a member",
  },
  "user.enabled": {
    label: "User enabled",
    says: () => "enabled the account of a member",
  },
  "user.emailVerified": {
    label: "Address verified",
    says: () => "marked the e-mail address of a member as verified",
  },
  "user.passwordResetIssued": {
    label: "Password reset issued",
    says: () => "issued a password reset link for a member",
  },
};

/** The texts of the audit log. */
export const texts = {
  title: "Audit log",
  intro:
    "Changes to keys, members, billing, profiles and secrets, and uses of secrets. Entries cannot be changed or deleted.",
  membersTitle: "Only owners and admins can see the audit log",
  membersHint: "Ask an owner or an admin if you need to know who changed something.",
  actions,
  label: (action: string) => actions[action]?.label ?? action,
  says: (action: string, details: Details) => actions[action]?.says(details) ?? `did "${action}"`,
  action: "Action",
  allActions: "All actions",
  actor: "Who",
  allActors: "Everyone",
  members: "Members",
  keys: "Organization keys",
  otherActor: "Selected actor",
  from: "From",
  to: "To",
  target: (id: string) => `Only changes of ${id}`,
  onlyTarget: "All changes of this object",
  clear: "Clear filters",
  empty: "No entries",
  emptyHint: "Changes appear here as soon as they are made.",
  noMatch: "No entry matches",
  noMatchHint: "Change or clear the filters.",
  list: "Entries",
  operator: "The operator",
  system: "The service",
  keyActor: (name: string) => `Key "${name}"`,
  serviceAccountActor: (name: string) => `Service account "${name}"`,
  unknownKey: "An organization key",
  unknownUser: "A user",
  facts: {
    time: "Time",
    action: "Action",
    actor: "Actor",
    target: "Object id",
    address: "Client address",
    request: "Request id",
  },
  nothing: "None",
  noRequest: "None; not made by a request",
  copyRequest: "Copy request id",
  copyTarget: "Copy object id",
};
