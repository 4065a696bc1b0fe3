/** The texts of the page that connects a worker. */
export const texts = {
  title: "Connect a worker",
  intro:
    "A worker runs the browsers on your own machine. It needs an organization key, and outgoing HTTPS to this service.",
  keyStep: "1. Organization key",
  runStep: "2. Start the worker",
  waitStep: "3. First heartbeat",
  keyHint: "The worker authenticates with this key (SVC_KEY).",
  keyChoice: "Key",
  newKey: "Create a key",
  useKey: (name: string, prefix: string, lastFour: string) => `${name} (${prefix}...${lastFour})`,
  newKeyName: "first worker",
  existingKey: (placeholder: string, prefix: string, lastFour: string) =>
    `Replace ${placeholder} in the commands with the full key that you stored: it starts with ${prefix} and ends with ${lastFour}. If you lost it, create a new key.`,
  keyCreated: "Key created",
  keyOnce: "Copy the key now: it is not shown again. It is filled into the commands below until you leave this page.",
  fullKey: "Organization key (SVC_KEY)",
  lowerKey: "Lowercase form, for image paths",
  image: "Worker image of this key",
  anotherKey: "Choose another key",
  memberTitle: "Ask an owner or an admin for an organization key",
  memberHint: (placeholder: string) =>
    `Your role cannot create or list keys. Ask for a new organization key, then replace ${placeholder} in the commands with it.`,
  seeMembers: "Show owners and admins",
  noImageTitle: "There is no worker image",
  noImage:
    "This service has no image registry, so a worker cannot be started from an image. Use one of the ways below, or ask the operator to set up a registry.",
  how: "How to run the worker",
  tabs: {
    docker: "Docker",
    compose: "Compose",
    kubernetes: "Kubernetes",
    binary: "Binary",
    source: "Source",
  },
  hints: {
    docker:
      "Starts the worker on port 38923 of this machine. worker/seccomp.json is in the source tree; it lets Chromium use its sandbox.",
    compose: "Save this as docker-compose.yml, then run: docker compose up -d",
    kubernetes: "Save this as svc-worker.yaml, then run: kubectl apply -f svc-worker.yaml",
    binary: "Run this on a machine with the svc-worker program and Chromium.",
    source: "Run this in the source tree. The worker listens on port 3000.",
  },
  code: {
    docker: "Docker command",
    compose: "Compose file",
    kubernetes: "Kubernetes manifest",
    binary: "command",
    source: "command",
  },
  withKey: "Contains the full key. Do not share it.",
  withoutKey: (placeholder: string) => `Replace ${placeholder} with your organization key first.`,
  waiting: "Waiting for your first worker ...",
  waitingNext: "Waiting for another worker ...",
  waitingHint: "Start the worker with the command above. This page checks every 3 seconds.",
  already: (names: string) => `Already connected: ${names}`,
  trouble: "The worker does not appear?",
  troubles: (cloudUrl: string) => [
    `The worker must reach ${cloudUrl} over the network.`,
    "The log of the worker states if the key is wrong, revoked or expired.",
    "Two workers must not have the same WORKER_ID.",
  ],
  connected: (name: string) => `${name} is connected`,
  connectedHint: (key: string | null, version: string | null) =>
    [key && `It uses the key "${key}"`, version && `runs version ${version}`].filter(Boolean).join(" and "),
  machines: "Show machines",
  launch: "Launch a browser",
};
