import type { Schema } from "../api";

type EndReason = NonNullable<Schema<"Session">["endReason"]>;

const endReasons: Record<EndReason, { title: string; explanation: string }> = {
  client_close: {
    title: "Closed by client",
    explanation: "A client closed the browser or its controlling connection.",
  },
  idle: {
    title: "Idle",
    explanation: "No client used the browser for the idle time of the launch.",
  },
  max_duration: {
    title: "Time limit",
    explanation: "The session reached the maximum duration of the launch.",
  },
  crash: {
    title: "Crashed",
    explanation: "The browser or its virtual display crashed.",
  },
  unresponsive: {
    title: "Unresponsive",
    explanation:
      "The browser stopped responding, and the worker ended it. UNRESPONSIVE_TIMEOUT of the worker sets how long it waits.",
  },
  oom: {
    title: "Out of memory",
    explanation:
      "The browser ran out of memory. Run fewer browsers at once on this machine, or give it more memory.",
  },
  killed: {
    title: "Ended by request",
    explanation: "A client asked the worker to end the session.",
  },
  license: {
    title: "No slot",
    explanation:
      "The session had no slot. Check the limit and whether the worker reaches the cloud.",
  },
  drain: {
    title: "Worker stopped",
    explanation: "The worker stopped while the browser ran.",
  },
  unknown: {
    title: "Unknown",
    explanation: "The reason is unknown, or the launch failed.",
  },
};

const moments: Record<Schema<"SessionMomentKind">, string> = {
  refused: "The launch or the start was refused",
  reserved: "Slot reserved",
  started: "Browser started (clock of the worker)",
  firstHeartbeat: "First heartbeat with this session",
  lastHeartbeat: "Latest heartbeat with this session",
  omitted: "A heartbeat omitted the session; slot released",
  lapsed: "No report arrived in time; slot released",
  adopted: "The worker reported the session again; it uses a slot again",
  ended: "Session ended (clock of the worker)",
  released: "Slot released",
};

const events: Record<Schema<"LicenseEventKind">, string> = {
  refused: "A launch or a session start was refused",
  lapsed: "The slot was released because no report arrived in time",
  omitted: "The slot was released because a heartbeat omitted the session",
  adopted: "The expired session uses a slot again",
  limitChanged: "The limit changed",
  machineDuplicated: "Two workers report with the same machine id",
  machineAlone: "Only one worker reports with the machine id again",
  counterRepaired: "The counter of used slots was corrected",
};

/** The texts of the sessions. */
export const texts = {
  title: "Sessions",
  subtitle: "Browsers that your workers run or ran.",
  list: "Sessions",
  filters: "Filters",
  clearFilters: "Clear filters",
  columns: {
    profile: "Profile",
    status: "Status",
    startedAt: "Started",
    endedAt: "Ended",
    duration: "Duration",
    machine: "Machine",
    key: "Key",
    browser: "Browser",
  },
  status: "Status",
  anyStatus: "Any status",
  statuses: { running: "Running", exited: "Exited", killed: "Killed" },
  endReasons,
  profile: "Profile",
  anyProfile: "Any profile",
  findProfile: "Type a name",
  noProfile: "No profile has this name.",
  moreProfiles: (count: number) =>
    `${count} more. Type more of the name to find them.`,
  removeProfile: "Show all profiles",
  machine: "Machine",
  anyMachine: "Any machine",
  key: "Key",
  anyKey: "Any key",
  unknownKey: "Unknown key",
  from: "Started from",
  to: "Started before",
  range: "Started",
  ranges: {
    all: "Any time",
    "1h": "Last hour",
    "24h": "24 hours",
    "7d": "7 days",
    custom: "Dates",
  },
  order: "Order",
  orders: {
    "startedAt desc": "Latest start first",
    "startedAt asc": "Earliest start first",
    "endedAt desc": "Latest end first",
    "endedAt asc": "Earliest end first",
  },
  emptyTitle: "No sessions yet",
  emptyHint:
    "A session appears here when a worker launches a browser. Connect a worker and launch a browser with it.",
  emptyAction: "Connect a worker",
  noMatchTitle: "No session matches these filters",
  noMatchHint: "Choose a longer time or remove filters.",
  pages: "Older sessions",
  older: "Older",
  newest: "Newest",
  olderSessions: "Older sessions",
  detail: {
    title: "Session",
    copyId: "Copy session id",
    notFound: "This session does not exist",
    notFoundHint:
      "It may belong to another organization, or it was deleted after its retention time.",
    facts: "Session",
    id: "Session id",
    launchId: "Launch id",
    copyLaunchId: "Copy launch id",
    copyProfileId: "Copy profile id",
    copyMachineId: "Copy machine id",
    copySlotId: "Copy slot id",
    ended: "Ended",
    notEnded: "Still running",
    version: (major: number) => `Chromium ${major}`,
    showMachine: "Show machine",
    sessionsOfProfile: "Sessions of this profile",
    machineGone:
      "The machine has not reported for a long time and was deleted.",
    slot: "License slot",
    slotHint: "One unit of concurrency, from reservation to release.",
    slotGone: "The slot of this session was deleted after its retention time.",
    slotId: "Slot id",
    state: "State",
    states: { reserved: "Reserved", running: "Running", released: "Released" },
    lease: "Lease until",
    noLease: "No lease",
    stale: "Stale",
    staleYes: "Yes: reclaim would release the slot now",
    staleNo: "No",
    release: "Release reason",
    notReleased: "Not released",
    releases: {
      ended: "The worker reported the end",
      omitted: "A heartbeat omitted the session",
      lapsed: "No report arrived in time",
    },
    timeline: "Timeline",
    noTimeline: "The timeline was deleted after its retention time.",
    moments,
    refusal: {
      concurrency_limit: "all slots were in use",
      profile_limit: "the profile limit was reached",
    } as Record<string, string>,
    events: "License events",
    noEvents: "No license events concern this session.",
    event: events,
    count: (count: number) => `${count} times`,
    moreEvents: (count: number) => `${count} more events are not shown.`,
  },
};
