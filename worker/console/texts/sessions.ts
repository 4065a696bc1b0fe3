import type { Schema } from "../api";

type EndReason = NonNullable<Schema<"BrowserSession">["endReason"]>;
type FileSource = Schema<"LaunchFileSource">;
type FileState = Schema<"LaunchFileState">;
type NotSaved = NonNullable<Schema<"BrowserSession">["dataNotSavedReason"]>;

const endReasons: Record<EndReason, string> = {
  client_close: "A client closed the browser",
  idle: "Idle timeout reached",
  max_duration: "Maximum duration reached",
  never_connected: "No client used the browser",
  crash: "The browser crashed",
  unresponsive: "The browser stopped responding",
  oom: "Out of memory",
  killed: "Ended by request",
  license: "No slot in the license",
  drain: "The worker stopped",
  unknown: "Reason unknown, or the launch failed",
};

type ExpiresReason = NonNullable<Schema<"BrowserSession">["expiresReason"]>;

const expiresReasons: Record<ExpiresReason, string> = {
  idle: "no client is active",
  max_duration: "the maximum duration is reached",
  never_connected: "no client has used the browser",
};

const notSaved: Record<NotSaved, string> = {
  too_large: "the data is larger than LAUNCH_DISK_MB",
  unclean_end: "the browser did not close cleanly",
  disk_full: "the disk of the worker is full",
  timeout: "saving took too long",
  pending: "it is stored, but the cloud has not acknowledged it yet",
  error: "an error occurred; see the log of the worker",
};

type Recording = NonNullable<Schema<"Recording">>;

const recordingStates: Record<Recording["state"], string> = {
  recording: "Recording",
  complete: "Complete",
  incomplete: "Incomplete",
  failed: "Failed",
};

const recordingReasons: Record<NonNullable<Recording["reason"]>, string> = {
  quota_exceeded: "the files have reached LAUNCH_FILES_MB",
  disk_full: "the disk of the worker is full",
  encoder_failed: "the video could not be encoded; see the log of the worker",
  frames_failed: "the frames could not be stored; see the log of the worker",
  har_failed: "the requests could not be stored; see the log of the worker",
  trace_failed: "the trace could not be stored; see the log of the worker",
  start_failed: "it could not start; see the log of the worker",
  interrupted: "the worker was killed",
  no_picture: "the browser showed no picture",
};

const sources: Record<FileSource, string> = { download: "Download", upload: "Upload" };

const fileStates: Record<FileState, string> = {
  in_progress: "in progress",
  complete: "complete",
  canceled: "canceled or interrupted",
  failed: "failed",
  quota_exceeded: "canceled: larger than LAUNCH_FILES_MB",
  disk_full: "canceled: the disk of the worker is full",
};

const steps: Record<Schema<"TimelineStepName">, string> = {
  asked: "Request received",
  authorized: "Slot granted by the cloud",
  claimed: "Warm browser acquired",
  started: "Browser process started",
  answered: "Browser responded",
  ready: "Settings applied",
  reported: "Start reported to the cloud",
  ended: "Session ended",
};

/** The texts of the sessions and their details. */
export const texts = {
  title: "Sessions",
  launch: "Launch browser",
  capacity: (running: number, limit: number | null) =>
    limit === null ? `${running} running` : `${running} of ${limit} running`,
  launching: (count: number) => `, ${count} starting`,
  search: "Search name, profile, id, bundle, label",
  statusLabel: "Status",
  statuses: {
    running: "Running",
    exited: "Exited",
    killed: "Ended",
    all: "All",
  },
  viewLabel: "Layout",
  wall: "Wall",
  list: "List",
  pauseThumbnails: "Pause thumbnails",
  resumeThumbnails: "Resume thumbnails",
  empty: "No browser is running",
  emptyHint: "Launch one here, with POST /sessions/profile, or over a socket with /launch.",
  emptyEnded: "No such session",
  emptyEndedHint: "The worker lists sessions for one hour after their end.",
  noMatch: "No session matches the search",
  noMatchHint: "Change the search, or the status.",
  clear: "Clear the search",
  searched: (count: number) => `The search covers the last ${count} sessions.`,
  table: "Sessions",
  columns: {
    name: "Session",
    status: "Status",
    browser: "Browser",
    started: "Started",
    ended: "Ended",
  },
  status: (session: Schema<"BrowserSession">) => texts.statuses[session.status],
  endReason: (reason: EndReason | null) => (reason === null ? "" : endReasons[reason]),
  exitCode: (code: number) => (code < 0 ? `signal ${-code}` : `exit code ${code}`),
  browser: (version: number) => `Chromium ${version}`,
  shell: "Headless shell",
  frozen: "Frozen",
  frozenHint: "No client uses the browser. It continues with the next connection or request.",
  headless: "Headless",
  windowed: "Windowed",
  started: "Started",
  ran: "Ran for",
  needsPerson: "Needs a person",
  asksFor: "May the browser open",
  help: "Open the live view",
  timesOut: "Times out",
  endsIn: (seconds: number, reason: ExpiresReason) => `Ends in ${seconds} s: ${expiresReasons[reason]}`,
  keepRunning: "Keep running",
  extend: "Extend by 10 minutes",
  view: "View",
  viewHere: "View here",
  viewOf: (name: string) => `Open the live view of ${name}`,
  devtools: "DevTools",
  browserPage: "Browser page",
  copyCdp: "Copy CDP URL",
  details: "Details",
  more: (name: string) => `More actions for ${name}`,
  end: "End session",
  launchAgain: "Launch this profile again",
  recording: "Recording",
  trace: "Trace",
  newTab: "opens a new tab",
  opening: "Opening …",
  popupBlocked: "The browser blocked the new tab. Allow pop-ups for this address and try again.",
  hasEnded: "The session has ended.",
  noDevtools: "This browser build does not include DevTools.",
  endTitle: (name: string) => `End the session of ${name}?`,
  endHint:
    "The browser and all of its tabs close at once, and its clients are disconnected. If the profile persists its data, the data is saved first.",
  ended: "Session ended",
  endedSaved: "Session ended, data saved",
  endedNotSaved: (reason: NotSaved | null) =>
    `Session ended, but the data was not saved: ${reason ? notSaved[reason] : "unknown reason"}.`,
  picture: {
    of: (name: string) => `Screen of ${name}`,
    paused: "Thumbnails are paused",
    none: "Session ended",
    last: "Last picture before the end",
    gone: "The browser has ended",
    noPage: "No page is open",
    full: "The worker is busy",
    busy: "The page is busy or shows a dialog",
    failed: "No picture",
  },
  drawer: {
    title: "Session",
    notFound: "There is no such session",
    notFoundHint: "The worker keeps sessions for one hour after their end. The address may also be wrong.",
    navigate: "Navigate",
    url: "URL",
    waitUntil: "Wait for",
    waits: [
      ["load", "Page loaded"],
      ["domcontentloaded", "Document parsed"],
      ["none", "Nothing"],
    ] as [string, string][],
    go: "Go",
    loaded: (title: string) => (title ? `Loaded: ${title}` : "The page is loaded."),
    page: "Save",
    storageState: "Cookies and storage",
    log: "Console messages",
    logHint:
      "Messages of scripts, exceptions and failed requests of all tabs. A page can detect that they are collected.",
    showLog: "Show messages",
    readsLog: "Reading the messages …",
    noLog: "No messages yet.",
    missingLog: (count: number) => `${count} earlier messages are not shown.`,
    logKinds: { exception: "exception", request: "request", browser: "browser" },
    network: "Network",
    files: "Files",
    noFiles: "The browser has no downloads and no uploads.",
    filesList: "Files of the session",
    moreFiles: (count: number) => `The list shows the newest ${count} files.`,
    saveFile: (name: string) => `Save ${name}`,
    saveFiles: "Save all as an archive",
    source: (source: FileSource) => sources[source],
    state: (state: FileState) => fileStates[state],
    notRecorded: "This session is not recorded.",
    recordingState: ({ state, reason }: Recording) =>
      reason ? `${recordingStates[state]}: ${recordingReasons[reason]}` : recordingStates[state],
    script: "Script of what was done",
    scriptLanguage: {
      "playwright-ts": "Playwright Test",
      "playwright-py": "Playwright (Python)",
      "selenium-py": "Selenium (Python)",
    },
    startRecording: "Start recording",
    stopRecording: "Stop recording",
    pdf: "PDF",
    png: "Screenshot of the whole page",
    facts: "Facts",
    share: "Share the screen",
    shareHint:
      "A view ticket is a link that shows the screen and allows no input. It opens one page: who opens it first can watch. It cannot be revoked.",
    lifetime: "Valid for",
    lifetimes: [
      ["60", "1 minute"],
      ["300", "5 minutes"],
      ["900", "15 minutes"],
    ] as [string, string][],
    createTicket: "Create link",
    ticket: "Read-only link",
    copyTicket: "Copy the link",
    expires: "Expires",
    expired: "Expired. Create another link.",
    connect: "Connect",
    addressesHint:
      "Addresses contain a token that gives full control of this browser. Handle them like passwords. The copied text has the token.",
    client: "Client",
    program: "Program",
    cdp: "CDP (WebSocket)",
    devtools: "DevTools",
    live: "Live view",
    port: "debuggerAddress",
    copy: (name: string) => `Copy ${name}`,
    metadata: "Labels",
    noMetadata: "This session has no labels.",
    timeline: "Timeline",
    after: (milliseconds: number) =>
      milliseconds >= 1000
        ? `+${(milliseconds / 1000).toFixed(2)} s`
        : `+${milliseconds.toFixed(milliseconds > 0 && milliseconds < 10 ? 1 : 0)} ms`,
    step: (name: Schema<"TimelineStepName">) => steps[name],
    fact: {
      profile: "Profile",
      profileId: "Profile id",
      sessionId: "Session id",
      launchId: "Launch id",
      browser: "Browser",
      bundle: "Bundle",
      noBundle: "None",
      start: "Start",
      clients: "Clients",
      activity: "Last activity",
      started: "Started",
      ended: "Ended",
      duration: "Duration",
      endReason: "End reason",
      expires: "Ends",
      exitCode: "Exit code",
      data: "Browser data",
      proxy: "Proxy traffic",
    },
    expiresReason: (reason: ExpiresReason) => expiresReasons[reason],
    warm: "Warm browser",
    cold: (reasons: string[]) => (reasons.length ? `New browser (${reasons.join(", ")})` : "New browser"),
    saved: "Saved",
    notSaved: (reason: NotSaved | null) => `Not saved: ${reason ? notSaved[reason] : "unknown reason"}`,
    traffic: (received: string, sent: string) => `${received} received, ${sent} sent`,
  },
};
