// The connection to the browser's picture. It reconnects until the browser has
// ended or the access has expired.
import RFB from './novnc/core/rfb.js';

// Close statuses of the worker; stream.go uses the same numbers.
const ended = 4001;
const goingAway = 1001;
const tooMany = 1013;

const firstWait = 500; // ms
const maxWait = 15000;

export class Stream extends EventTarget {
  #target;
  #address;
  #timer;
  #failures = 0;
  #viewOnly;

  rfb = null; // set while connected or connecting
  live = false;

  // The stream draws into target. Events: 'state' with detail {name, message},
  // where name is live, reconnecting or ended; 'clipboard' with the text that was
  // copied in the browser as detail; 'control' when viewOnly was set; 'handover' with
  // the open handover, or null, as detail; 'questions' with the documents that wait for a person;
  // 'expiry' with the end of the browser within a minute,
  // or null, as detail.
  constructor(target, viewOnly) {
    super();
    this.#target = target;
    this.#viewOnly = viewOnly;
    this.#address = new URL('vnc?events=true', location.href);
    this.#address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    addEventListener('online', () => this.retry());
    document.addEventListener('visibilitychange', () => document.hidden || this.retry());
  }

  get viewOnly() { return this.#viewOnly; }

  set viewOnly(value) {
    this.#viewOnly = value;
    if (this.rfb) this.rfb.viewOnly = value;
    this.dispatchEvent(new Event('control'));
  }

  connect() {
    const socket = new WebSocket(this.#address);
    socket.addEventListener('close', (event) => this.#closed(event));
    socket.addEventListener('message', (event) => { // before noVNC, which knows no text messages
      if (typeof event.data !== 'string') return;
      event.stopImmediatePropagation();
      for (const [name, detail] of Object.entries(JSON.parse(event.data))) this.dispatchEvent(new CustomEvent(name, {detail}));
    });
    const rfb = new RFB(this.#target, socket, {shared: true});
    Object.assign(rfb, {scaleViewport: true, viewOnly: this.#viewOnly, background: 'transparent'});
    rfb.addEventListener('connect', () => {
      this.live = true;
      this.#failures = 0;
      this.#dispatchState('live');
    });
    rfb.addEventListener('clipboard', (event) => this.dispatchEvent(new CustomEvent('clipboard', {detail: event.detail.text})));
    rfb.addEventListener('credentialsrequired', () => rfb.disconnect());
    this.rfb = rfb;
  }

  // retry starts the next attempt without further delay.
  retry() {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.connect();
  }

  async #closed({code}) {
    this.rfb = null;
    this.live = false;
    if (code === ended) return this.#dispatchState('ended', 'The browser has ended.');
    const reason = {
      [goingAway]: 'The worker is shutting down.',
      [tooMany]: 'This browser has too many viewers.',
    }[code] ?? 'The connection was lost.';
    this.#dispatchState('reconnecting', reason);
    if (await isGone()) {
      return this.#dispatchState('ended', 'The browser has ended, or your access has expired. If the browser is still running, request a new link.');
    }
    const wait = Math.min(firstWait * 2 ** this.#failures++, maxWait);
    this.#timer = setTimeout(() => this.retry(), wait * (.75 + Math.random() / 2));
  }

  #dispatchState(name, message = '') {
    this.dispatchEvent(new CustomEvent('state', {detail: {name, message}}));
  }
}

// isGone reports whether the browser has ended or the access has expired. A
// refused WebSocket does not show the status.
async function isGone() {
  try {
    const response = await fetch('view', {method: 'HEAD', cache: 'no-store', signal: AbortSignal.timeout(10000)});
    return response.status === 404 || response.status === 403;
  } catch {
    return false;
  }
}
