// The connection to the browser's picture: it comes back by itself for as long
// as there is something to come back to.
import RFB from './novnc/core/rfb.js';

// How the worker ends a stream, beside the usual ways; stream.go knows them too.
const ended = 4001;
const goingAway = 1001;
const tooMany = 1013;

const firstWait = 500; // ms
const longestWait = 15000;

export class Stream extends EventTarget {
  #target;
  #address;
  #timer;
  #failures = 0;
  #viewOnly;

  rfb = null; // while there is a connection, or one is being made
  live = false;

  // It draws into target. Its events: 'state', with detail {name, message},
  // where name is connecting, live, reconnecting or ended; and 'clipboard',
  // with the text that was copied in the browser as detail.
  constructor(target, viewOnly) {
    super();
    this.#target = target;
    this.#viewOnly = viewOnly;
    this.#address = new URL('vnc', location.href);
    this.#address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    addEventListener('online', () => this.retry());
    document.addEventListener('visibilitychange', () => document.hidden || this.retry());
  }

  get viewOnly() { return this.#viewOnly; }

  set viewOnly(value) {
    this.#viewOnly = value;
    if (this.rfb) this.rfb.viewOnly = value;
  }

  connect() {
    const socket = new WebSocket(this.#address);
    socket.addEventListener('close', (event) => this.#closed(event));
    const rfb = new RFB(this.#target, socket, {shared: true});
    Object.assign(rfb, {scaleViewport: true, viewOnly: this.#viewOnly, background: 'transparent'});
    rfb.addEventListener('connect', () => {
      this.live = true;
      this.#failures = 0;
      this.#tell('live');
    });
    rfb.addEventListener('clipboard', (event) => this.dispatchEvent(new CustomEvent('clipboard', {detail: event.detail.text})));
    rfb.addEventListener('credentialsrequired', () => rfb.disconnect());
    this.rfb = rfb;
  }

  // retry doesn't wait any longer before the next attempt.
  retry() {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.connect();
  }

  async #closed({code}) {
    this.rfb = null;
    this.live = false;
    if (code === ended) return this.#tell('ended', 'The browser has ended.');
    const why = {
      [goingAway]: 'The worker is shutting down.',
      [tooMany]: 'Too many are watching this browser already.',
    }[code] ?? 'The connection was lost.';
    this.#tell('reconnecting', why);
    if (await isGone()) {
      return this.#tell('ended', 'The browser has ended, or your access to it has. If it still runs, a new link opens it.');
    }
    const wait = Math.min(firstWait * 2 ** this.#failures++, longestWait);
    this.#timer = setTimeout(() => this.retry(), wait * (.75 + Math.random() / 2));
  }

  #tell(name, message = '') {
    this.dispatchEvent(new CustomEvent('state', {detail: {name, message}}));
  }
}

// isGone asks what a refused WebSocket doesn't tell: whether there is nothing
// left to connect to.
async function isGone() {
  try {
    const response = await fetch('view', {method: 'HEAD', cache: 'no-store', signal: AbortSignal.timeout(10000)});
    return response.status === 404 || response.status === 403;
  } catch {
    return false;
  }
}
