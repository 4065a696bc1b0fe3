import type { Schema } from "../api";

const license: Record<Schema<"LicenseState">, string> = {
  ok: "The cloud accepts the key",
  unreachable: "The cloud does not respond",
  key_refused: "The cloud refuses the key (SVC_KEY)",
  no_key: "No key is set (SVC_KEY)",
  incompatible: "The cloud has another major contract version",
};

const fits: Record<Schema<"CloudContractFit">, string> = {
  unheard: "not heard of yet",
  fits: "compatible",
  older: "older minor version",
  incompatible: "incompatible",
  unknown: "version not reported",
};

const isolation: Record<Schema<"IsolationPieceName">, string> = {
  userId: "Separate user",
  pidNamespace: "PID namespace",
  networkNamespace: "Network namespace",
  mountNamespace: "Mount namespace",
  privateFiles: "Private directory",
  memoryLimit: "Memory limit",
  processLimit: "Process limit",
  cgroupKill: "Reliable termination",
  sandbox: "Chromium sandbox",
};

/** The texts of the Machine page. */
export const texts = {
  title: "Machine",
  subtitle: (host: string, since: string) => `${host}, running for ${since}`,
  availability: "Availability",
  available: "This worker accepts launches.",
  unavailable: "This worker does not accept launches.",
  drain: "Drain",
  resume: "Resume",
  drainTitle: "Drain this machine?",
  drainHint:
    "The worker accepts no new launches, and /readyz reports that it is not ready. Running sessions continue until they end. You can resume launches at any time.",
  drained: "The machine is draining",
  resumeTitle: "Resume launches?",
  resumeHint:
    "The worker accepts launches again, unless it is shutting down or another limit applies.",
  resumed: "The machine accepts launches again",
  notResumed:
    "The machine still drains: it is shutting down. Start the worker again.",
  cancel: "Cancel",
  processor: "CPU",
  memory: "Memory",
  sessions: "Sessions",
  disk: "Free disk space",
  free: (size: string) => `${size} free`,
  percent: (value: number) => `${value.toFixed(value < 10 ? 1 : 0)} %`,
  usedOf: (used: string, limit: string) => `${used} of ${limit}`,
  load: (load: number, cpus: number) =>
    `Load ${load.toFixed(2)} on ${cpus} CPUs`,
  noLimit: "No limit (MAX_SESSIONS)",
  limit: (limit: number) => `Limit ${limit} (MAX_SESSIONS)`,
  starting: (count: number) => `${count} starting`,
  history: (name: string, low: string, high: string) =>
    `${name} of the last minutes: ${low} to ${high}`,
  collecting: "The chart starts with this page.",
  browsers: "Installed browsers",
  noBrowsers: "No browser is installed. Install one and restart the worker.",
  version: "Version",
  modes: "Modes",
  headless: "Headless",
  windowed: "Windowed",
  devtools: "DevTools",
  yes: "Yes",
  no: "No",
  bundles: "Identity bundles",
  warmPool: "Warm pool",
  warmOff: "The warm pool is off. Set WARM_POOL to keep browsers ready.",
  warmReady: "Ready",
  warmHint: (size: number) => `of ${size} configured (WARM_POOL)`,
  warmKind: (version: number, headless: boolean, locale: string) =>
    [
      `Chromium ${version}`,
      headless ? "headless" : "windowed",
      locale || "default language",
    ].join(", "),
  warm: {
    starting: "Starting",
    memory: "Memory",
    launches: "Warm launches",
    cold: "Cold launches by reason",
    noCold: "None",
    died: "Crashed in the pool",
    stale: "Replaced because of age",
  },
  cloud: "Cloud",
  license: "License",
  licenseState: (state: Schema<"LicenseState">) => license[state],
  lastAnswer: "Last answer",
  contract: "Cloud contract",
  contractOf: (contract: Schema<"CloudContract">) =>
    `${contract.actual ?? "unknown"}, ${fits[contract.fit]} (this worker expects ${contract.expected})`,
  waiting: "Reports waiting",
  rejected: "Reports rejected",
  isolation: "Isolation",
  isolationHint: "What separates browsers from this machine and each other.",
  isolationOf: (name: Schema<"IsolationPieceName">) => isolation[name],
  on: "On",
  off: "Off",
  worker: "Worker",
  facts: {
    version: "Version",
    contract: "Contract",
    publicUrl: "Public URL",
    workerId: "Worker id",
    machineId: "Machine id",
    started: "Started",
    host: "Host",
    system: "System",
    hardware: "Hardware",
    notSet: "Not set",
  },
  hardwareOf: (cpus: number, memory: string) => `${cpus} CPUs, ${memory}`,
};
