import type { Schema } from "../api";

const states: Record<Schema<"MachineState">, string> = {
  online: "Online",
  draining: "Draining",
  offline: "Offline",
};

const stateHints: Record<Schema<"MachineState">, string> = {
  online: "The worker reported within the last two minutes.",
  draining: "The worker accepts no new sessions. Running sessions continue until they end.",
  offline: "The worker has not reported for two minutes. Check that it runs and that it reaches the cloud.",
};

/** The texts of the machines. */
export const texts = {
  title: "Machines",
  subtitle: "Hosts whose workers reported to this organization.",
  list: "Machines",
  search: "Search by machine id or host name",
  connect: "Connect a worker",
  states,
  stateHints,
  anyState: "Any state",
  state: "State",
  key: "Key",
  anyKey: "Any key",
  order: "Order",
  orders: {
    "hostName asc": "Host name",
    "machineId asc": "Machine id",
    "lastHeartbeatAt desc": "Last seen",
    "firstSeenAt desc": "Newest",
  },
  duplicate: "Duplicate id",
  full: "Full",
  columns: {
    machine: "Machine",
    machineId: "Machine id",
    hostName: "Host name",
    state: "State",
    version: "Version",
    contractVersion: "API version",
    workerId: "Worker id",
    publicUrl: "Public URL",
    sessions: "Sessions",
    lastHeartbeatAt: "Last seen",
    firstSeenAt: "First seen",
    key: "Key",
  },
  notReported: "Not reported",
  unknownKey: "Unknown key",
  otherVersion: "Older",
  versionsDiffer: "Workers run different versions",
  versionCount: (version: string, count: number) => `${version} on ${count === 1 ? "1 machine" : `${count} machines`}`,
  versionsHint: (list: string) => `${list}. Update the older workers, so that all of them behave the same.`,
  sessionsOf: (running: number, max: number | null) => (max === null ? `${running}, no limit` : `${running} of ${max}`),
  meter: (machine: string) => `Sessions on ${machine}`,
  reserved: (count: number) => `${count} reserved`,
  emptyTitle: "No machines yet",
  emptyHint:
    "A machine appears here when its worker reports for the first time. Start a worker with an organization key.",
  noMatchTitle: "No machine matches these filters",
  noMatchHint: "Remove filters or search for another name.",
  clearFilters: "Clear filters",
  detail: {
    title: "Machine",
    notFound: "This machine does not exist",
    notFoundHint: "A machine is deleted 30 days after its last report by default.",
    facts: "Machine",
    copyId: "Copy machine id",
    copyHost: "Copy host name",
    copyUrl: "Copy public URL",
    noWorkerId: "Not set",
    capacity: "Maximum sessions",
    noMaximum: "No limit reported",
    running: "Running",
    reserved: "Reserved",
    showSessions: "Show sessions",
    showRunning: "Show running sessions",
    duplicateTitle: "Several workers use this machine id",
    duplicateHint:
      "Each worker keeps its own sessions, but the numbers on this page are of all of them together. Give each worker its own WORKER_ID and restart it. Do not copy the data directory of a worker to another machine: a generated id is kept there.",
    drain: "Take this machine out of service",
    drainHint:
      "Drain the worker: it accepts no new sessions, and running sessions continue until they end. Send this request to the worker with its worker key. The cloud never holds a worker key, so it can't send it for you.",
    drainCommand: "drain command",
    resume: "Put this machine back into service",
    resumeHint:
      "The worker drains. If it is not shutting down, this request lets it accept sessions again. If it shuts down, start it again instead.",
    resumeCommand: "resume command",
    workerUrl: "https://worker.example.com",
    commandNote: "Set WORKER_KEY to the worker key.",
    commandNoteNoUrl: (url: string) =>
      `Replace ${url} with the address of the worker, and set WORKER_KEY to the worker key.`,
  },
};
