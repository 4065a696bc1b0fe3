/** The kinds of events, with their names; events of other kinds show the kind. */
const kinds: Record<string, string> = {
  recording_started: "Start",
  recording_ended: "End",
  truncated: "Later events are missing",
  tab_opened: "Tab opened",
  tab_closed: "Tab closed",
  navigation: "Navigation",
  click: "Click",
  input: "Input",
  console: "Console",
  exception: "Exception",
  request: "Request",
  browser: "Browser",
};

/** The texts of the player of recordings. */
export const texts = {
  title: "Recording",
  trace: "Trace",
  insecure:
    "The trace viewer needs https, or a worker at localhost. Open the link there, or download the trace and show it with npx playwright show-trace.",
  product: "svc",
  application: "worker",
  skip: "Skip to the content",
  session: "Session",
  video: "Video of the session",
  noVideo: "This session has no video.",
  videoFailed: "This web browser cannot play the video, or the video is damaged.",
  events: "Events",
  noEvents: "The events of this session were not recorded.",
  noMatch: "No event has one of the selected kinds.",
  filter: "Kinds of events",
  kind: (kind: string) => kinds[kind] ?? kind,
  more: (count: number) => `Show ${count} more`,
  none: "There is no such recording",
  noneHint:
    "Sessions are recorded if they were launched with browser.record. Recordings are removed after FILES_RETENTION.",
  running: "The session is still being recorded",
  runningHint: "The recording is available a few seconds after the end of the session.",
  retry: "Try again",
  signIn: "Open the recording",
  signInHint:
    "The link has expired or was already used: it opens the recording once. Ask for another link, or sign in with the worker key.",
  keys: "Space: play or pause. Left and right arrow: 5 seconds back or forward. In the list, up and down arrow: select an event; Enter: go to it.",
};
