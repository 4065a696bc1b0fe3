import type { Schema } from "../api";

type Reason = NonNullable<Schema<"UnavailableReason">>;

/** Why the worker does not accept launches: a few words, and what to do. */
const reasons: Record<Reason, [name: string, advice: string]> = {
  draining: [
    "Draining",
    "The worker is draining or shuts down. Resume on the Machine page lets it accept launches again, unless it shuts down.",
  ],
  isolation: [
    "Isolation incomplete",
    "MIN_ISOLATION is full, but this machine does not support every isolation mechanism. The Machine page lists them.",
  ],
  no_browser: [
    "No browser",
    "The worker finds no usable Chromium. Install the package chromium, or correct CHROMIUM_PATH.",
  ],
  cloud_unreachable: [
    "Cloud unreachable",
    "The worker cannot reach the cloud. Check SVC_CLOUD_URL and the network of the worker.",
  ],
  key_refused: [
    "Key refused",
    "The cloud refuses the organization key of this worker. Set SVC_KEY to a valid key and restart the worker.",
  ],
  no_key: ["No key", "The worker has no organization key. Set SVC_KEY and restart the worker."],
  cloud_incompatible: [
    "Cloud incompatible",
    "The cloud has another major version of the contract. Update the worker or the cloud.",
  ],
  max_sessions: ["Full", "The limit of sessions is reached. End a session, or raise MAX_SESSIONS."],
  memory: ["Memory full", "The memory of the machine is used up. End a session."],
  cpu: ["CPU full", "The processors are used up. Wait, or end a session."],
  disk: ["Disk full", "There is not enough free disk space. Free some space."],
  descriptors: [
    "Too many open files",
    "The worker has too few free file descriptors. Raise the limit of open files (ulimit -Hn, LimitNOFILE).",
  ],
};

/** The texts around the pages. */
export const texts = {
  product: "svc",
  application: "worker",
  home: "svc worker: sessions",
  skip: "Skip to content",
  navigation: "Pages",
  menu: "Menu",
  pages: { sessions: "Sessions", launch: "Launch", machine: "Machine" },
  theme: {
    system: "Theme: system",
    light: "Theme: light",
    dark: "Theme: dark",
  },
  documentation: "API documentation",
  shortcuts: "Keyboard shortcuts",
  signOut: "Sign out",
  keys: {
    search: "Search on this page",
    help: "Show this list",
    go: (page: string) => `Go to ${page}`,
  },
  notFound: "Page not found",
  notFoundTitle: "There is no such page",
  notFoundHint: "The address may be wrong.",
  toSessions: "Go to the sessions",
  signInTitle: "Sign in to this worker",
  signInHint: "Enter the worker key. It is API_KEY of the worker, or SVC_KEY if API_KEY is not set.",
  signIn: "Sign in",
  key: "Worker key",
  keep: "Keep me signed in on this browser for 12 hours",
  keepHint:
    "Stores a cookie that scripts cannot read. Without it, the key stays in the memory of this page until you reload or close it.",
  keyRefused: "The worker refuses this key.",
  cookieRefused: "The browser did not keep the cookie. Allow cookies for this address, or sign in without it.",
  expiredTitle: "Sign in again",
  expiredHint: "What you entered on this page is kept.",
  unreachable: "Worker unreachable",
  available: "Available",
  running: (count: number) => `${count} running`,
  reasonName: (reason: Schema<"UnavailableReason">) => (reason ? reasons[reason][0] : "Unavailable"),
  reasonAdvice: (reason: Schema<"UnavailableReason">) =>
    reason ? reasons[reason][1] : "The worker does not state a reason.",
};
