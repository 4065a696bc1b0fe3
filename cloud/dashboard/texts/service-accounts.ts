/** The texts of service accounts. */
export const texts = {
  title: "Service accounts",
  intro:
    "Identities of the organization for programs. They belong to no person, so they remain when the person who created them leaves.",
  create: "Create service account",
  name: "Name",
  nameHint: "For example the program that uses it",
  scopes: "Scopes",
  createdBy: "Created by",
  formerMember: "Former member",
  lastUsed: "Last use",
  neverUsed: "Never",
  disabled: "Disabled",
  empty: "No service accounts",
  emptyHint: "Create one for a program that must not depend on a person.",
  members: "Only owners and admins can see and manage service accounts.",
  membersHint: "Ask an owner or an admin if a program needs one.",
  actions: (name: string) => `Actions for ${name}`,

  tokens: "Access tokens",
  tokensOf: (name: string) => `Access tokens of ${name}`,
  tokensHint:
    "A program acts as the service account with an access token. The service stores only a hash, so a token is shown once.",
  tokensDisabled: "The account is disabled. Enable it to create tokens.",
  noTokensHint: "Create one for the program.",

  edit: "Change",
  editTitle: (name: string) => `Change ${name}`,
  activity: "Changes in the audit log",
  cancel: "Cancel",
  save: "Save changes",

  disable: "Disable",
  disableTitle: (name: string) => `Disable ${name}`,
  disableHint:
    "All tokens of the account are revoked. This cannot be undone: after you enable the account, create new tokens.",
  enable: "Enable",
  enableTitle: (name: string) => `Enable ${name}`,
  enableHint: "The account can have tokens again. Tokens that were revoked stay invalid.",
  delete: "Delete",
  deleteTitle: (name: string) => `Delete ${name}`,
  deleteHint: "All tokens of the account are revoked. Keys and profiles that it created stay.",
  deleted: (name: string) => `${name} is deleted`,
};
