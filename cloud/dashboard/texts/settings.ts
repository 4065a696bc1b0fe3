const unit = (n: number, one: string, many: string) =>
  `${n} ${n === 1 ? one : many}`;

/** The texts of the settings. */
export const texts = {
  createOrganization: "Create organization",
  organizationName: "Name",

  title: "Settings",
  sections: "Sections of the settings",
  tabs: {
    keys: "API keys",
    members: "Members",
    organization: "Organization",
    builds: "Browser builds",
  },
  cancel: "Cancel",
  close: "Close",
  save: "Save changes",
  saved: "Saved",
  actions: (name: string) => `Actions for ${name}`,
  none: "None",
  unlimited: "unlimited",
  search: "Search",

  roles: { owner: "Owner", admin: "Admin", member: "Member" },
  roleHints: {
    owner:
      "Everything, including other owners and deletion of the organization",
    admin: "Keys, members, billing, audit log and profiles",
    member: "Profiles and sessions",
  },

  keys: {
    title: "Organization keys",
    intro:
      "Workers authenticate with an organization key (SVC_KEY). The service stores only a hash, so a key is shown once.",
    create: "Create key",
    name: "Name",
    nameHint: "For example the place or the purpose of the workers",
    key: "Key",
    machines: "Used by",
    createdBy: "Created by",
    lastUsed: "Last used",
    expires: "Expires",
    neverUsed: "Never",
    neverExpires: "Never",
    expired: "Expired",
    formerMember: "Former member",
    noMachines: "No machine",
    machineCount: (n: number) => unit(n, "machine", "machines"),
    offlineMachine: (name: string) => `${name} (offline)`,
    empty: "No organization keys",
    emptyHint: "Create a key, then start a worker with it.",
    connect: "Connect a worker",
    members: "Only owners and admins can see and manage organization keys.",
    membersHint: "Ask an owner or an admin if you need a key for a worker.",
    expiryHint: "In your time zone. Leave empty if the key does not expire.",
    presets: [
      ["30 days", 30],
      ["90 days", 90],
      ["1 year", 365],
    ] as [string, number][],
    presetNever: "Never",
    presetLabel: "Set the expiry",
    edit: "Rename or change expiry",
    editTitle: (name: string) => `Edit ${name}`,
    rotate: "Rotate",
    revoke: "Revoke",
    revokeTitle: (name: string) => `Revoke ${name}`,
    revokeHint:
      "The key is rejected from the next request on. This cannot be undone.",
    revokeUnused: "No machine that reported recently uses this key.",
    revokeUsed: (n: number) =>
      `${unit(n, "machine uses", "machines use")} this key and cannot launch browsers afterwards:`,
    revokeAction: "Revoke key",
    revokeUnknown:
      "It could not be checked which machines use this key. They cannot launch browsers afterwards.",
    more: (n: number) => `and ${n} more`,
    revoked: (name: string) => `${name} is revoked`,
    created: "Store the new key",
    createdHint:
      "This is the only time that the full key is shown. Store it in your password manager or as a secret of your deployment.",
    fullKey: "Organization key (SVC_KEY)",
    lowerKey: "Lowercase form, for image paths",
    image: "Worker image of this key",
    noImage: "This service has no image registry.",
    stored: "I have stored the key",
    done: "Close",
    lost: "The key was created by an earlier request whose response was lost. The full key cannot be shown again. Revoke the key and create another.",
  },

  rotation: {
    title: (name: string) => `Rotate ${name}`,
    back: "Back to the keys",
    intro:
      "Replaces a key without an interruption. Both keys are valid until you revoke the old one. You can leave this page and come back by its address.",
    missing: "The old key does not exist any more",
    missingHint:
      "It was revoked. The rotation is complete if all workers use the replacement.",
    missingNew: "The replacement does not exist any more",
    missingNewHint:
      "It was revoked. Start the rotation again, or keep the old key.",
    restart: "Start again",
    steps: {
      create: "1. Create the replacement",
      update: "2. Update the workers",
      verify: "3. Check the use",
      revoke: "4. Revoke the old key",
    },
    states: {
      open: "To do",
      next: "Next step",
      wait: "In progress",
      done: "Done",
    },
    createHint: (lifetime: boolean) =>
      lifetime
        ? "The replacement gets the same name and the same lifetime, counted from now."
        : "The replacement gets the same name. It does not expire.",
    oldKey: "Old key",
    oldKeyLabel: (prefix: string, lastFour: string) =>
      `${prefix}...${lastFour}`,
    oldKeeps: "Stays valid until I revoke it",
    oldExpires: [
      ["3600", "Expires in 1 hour"],
      ["86400", "Expires in 1 day"],
      ["604800", "Expires in 7 days"],
    ] as [string, string][],
    create: "Create replacement",
    createdAs: (prefix: string, lastFour: string) =>
      `The replacement starts with ${prefix} and ends with ${lastFour}.`,
    lostKey:
      "The full key was shown once. If you lost it, revoke the replacement in the list of keys and start again.",
    updateHint:
      "On each worker, set SVC_KEY to the replacement and restart the worker. Running browsers end with a restart: drain the worker first. Where API_KEY is not set, the worker key (X-API-Key) changes too. The path of a worker image contains the lowercase key.",
    onOld: "Machines with the old key",
    onNew: "Machines with the replacement",
    noneOld: "No machine uses the old key.",
    noneNew: "No machine has reported with the replacement yet.",
    offlineHint:
      "Offline machines do not block the rotation. If they start with the old key after it is revoked, they cannot launch browsers.",
    machine: "Machine",
    state: "State",
    lastSeen: "Last report",
    waitUse: "Waiting for the first request with the replacement.",
    waitMachines: (n: number) =>
      `The replacement is in use. ${unit(n, "online machine still uses", "online machines still use")} the old key.`,
    verified:
      "The replacement is in use, and no online machine uses the old key.",
    revokeHint: "Revoke the old key when step 3 is done.",
    revokeEarly:
      "Online machines still use the old key, or the replacement has not been used. Machines with the old key cannot launch browsers after it is revoked.",
    oldEnds: "The old key expires",
    complete: (name: string) => `${name} is rotated`,
  },

  machineStates: { online: "Online", draining: "Draining", offline: "Offline" },

  members: {
    title: "Members",
    intro: "People who can sign in to this organization.",
    name: "Name",
    role: "Role",
    joined: "Joined",
    you: "You",
    allRoles: "All roles",
    search: "Search by name or e-mail address",
    invite: "Invite",
    empty: "No members match",
    emptyHint: "Change the search or the role.",
    changeRole: "Change role",
    changeRoleTitle: (name: string) => `Change the role of ${name}`,
    changeOwn:
      "If you give up the role owner, only another owner can give it back.",
    changed: (name: string, role: string) =>
      `${name} is now ${role.toLowerCase()}`,
    remove: "Remove",
    removeTitle: (name: string) => `Remove ${name}`,
    removeHint:
      "The person loses access at once. Keys that they created stay valid. Invitations that they sent are revoked.",
    removed: (name: string) => `${name} is removed`,
    leave: "Leave organization",
    leaveTitle: (name: string) => `Leave ${name}`,
    leaveHint:
      "You lose access at once. To come back, you need a new invitation. Keys that you created stay valid; invitations that you sent are revoked.",
    lastOwner:
      "You are the only owner. Make another member an owner first, or delete the organization.",
    onlyOwners: "Only an owner can change roles, and invite owners and admins.",
    ask: "Ask an owner or an admin to invite people.",
  },

  invitations: {
    title: "Pending invitations",
    intro:
      "An invitation is valid for seven days, once. Pending invitations count toward the member limit.",
    email: "E-mail address",
    role: "Role",
    by: "Invited by",
    sent: "Sent",
    expires: "Expires",
    pages: "Pages of the invitations",
    empty: "No pending invitations.",
    invite: "Invite a member",
    send: "Send invitation",
    sentTo: (email: string) => `Invitation sent to ${email}`,
    limitTitle: "The member limit of the plan is reached.",
    limit: (current: number, limit: number) =>
      `The plan allows ${unit(limit, "member", "members")}, and there are ${current} with pending invitations. Revoke an invitation, remove a member, or raise the limit.`,
    billing: "Change the plan",
    revoke: "Revoke",
    revokeTitle: (email: string) => `Revoke the invitation of ${email}`,
    revokeHint:
      "The link in the e-mail becomes invalid. You can invite the address again.",
    revoked: "Invitation revoked",
    ownersOnly: "Only an owner can revoke this invitation",
  },

  organization: {
    title: "Organization",
    slug: "Slug",
    slugHint: "A short unique name: lowercase letters, digits and hyphens",
    id: "Organization id",
    copyId: "Copy organization id",
    created: "Created",
    role: "Your role",
    readOnly: "Only owners and admins can change the name and the slug.",
    deleteTitle: "Delete organization",
    deleteHint: "Only an owner can delete the organization.",
    deletes: [
      "All members, invitations, keys, profiles, the session history and the subscription are deleted. This cannot be undone.",
      "Its keys are rejected from the next request on, so its workers cannot launch browsers.",
      "Data on the workers is not deleted.",
    ],
    deletePaid:
      "An organization that a payment provider bills cannot be deleted: change to the free plan first.",
    toBilling: "Open billing",
    delete: "Delete organization",
    confirmTitle: (name: string) => `Delete ${name}`,
  },

  builds: {
    title: "Browser builds",
    intro: "Chromium builds that workers can install from this service.",
    install: "Install on a worker",
    installHint:
      "Run this on the worker. Without an installed build, a worker uses the Chromium of its machine. VERSION is a major version or a full version.",
    installCommand: (version: string) =>
      `svc-worker browsers install ${version}`,
    command: "install command",
    commandOf: (version: string) => `Copy the install command of ${version}`,
    version: "Version",
    platform: "Platform",
    channel: "Channel",
    size: "Size",
    published: "Published",
    sha256: "SHA-256",
    copySha: (version: string) => `Copy the SHA-256 of ${version}`,
    os: "Operating system",
    arch: "Processor",
    major: "Major version",
    allOs: "All systems",
    allArch: "All processors",
    osNames: { linux: "Linux", macos: "macOS", windows: "Windows" },
    channelNames: {
      stable: "Stable",
      beta: "Beta",
      dev: "Dev",
      canary: "Canary",
    },
    empty: "No browser builds",
    emptyHint:
      "The operator of this service has not published builds. Workers use the Chromium of their machines.",
    noMatch: "No build matches",
    noMatchHint: "Change or clear the filters.",
    clear: "Clear filters",
  },
};
