/** The texts of the form of network rules. */
export const texts = {
  pattern:
    "One per line: a host (example.com), a host with its subdomains (*.example.com), an address or a network (10.0.0.0/8).",

  navigate: {
    title: "Pages",
    only: "Pages that may be opened",
    onlyHint: "In tabs, popups and frames. With a restriction, only http and https are possible.",
    choices: [
      ["web", "All web pages, except those below"],
      ["list", "Only the pages below"],
    ] as [string, string][],
    everything: "All, without restriction",
    allow: "Allowed pages",
    patternMore: "Also a URL, in whose path * stands for any characters, or a scheme (data:).",
    ask: "Pages that need a person",
    askHint: "They wait until a person allows them in the live view.",
    deny: "Denied pages",
    denyHint: "They take precedence.",
  },
  connect: {
    title: "Connections",
    only: "Hosts that may be connected to",
    onlyHint: "For pages and everything that they load. Pages that may be opened need their hosts here, too.",
    choices: [["list", "Only the hosts below"]] as [string, string][],
    everything: "All, except denied hosts",
    allow: "Allowed hosts",
    deny: "Denied hosts",
    denyHint: "They take precedence. A network also denies the names of its addresses.",
  },
  contents: {
    title: "Contents and limits",
    block: "Blocked contents",
    blockHint: "Ads need a worker with a block list.",
    kinds: [
      ["image", "Images"],
      ["media", "Audio and video"],
      ["font", "Fonts"],
      ["ads", "Ads"],
    ] as [string, string][],
    readOnly: "Only requests that read (GET, HEAD and OPTIONS)",
    uploads: "Uploads",
    downloads: "Downloads",
    transfers: [["deny", "Denied"]] as [string, string][],
    allowed: "Allowed",
    maxMegabytes: "Maximum traffic in megabytes",
    maxMegabytesHint: "Sent and received, for each browser.",
    maxRequestsPerMinute: "Maximum requests per minute",
  },
};
