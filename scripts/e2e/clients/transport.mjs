const patience = 30_000; // ms, the worker's RESUME_SECONDS

// ResumingTransport lets puppeteer survive the network: it counts what it receives and goes on there with a new socket.
// A socket that the worker closes with a close frame has ended for good; any other end, 1006, is a cut.
export class ResumingTransport {
  onmessage;
  onclose;
  cuts = 0;
  #address;
  #WebSocket;
  #heartbeat;
  #socket;
  #silent = 0; // heartbeats since the worker was heard
  #ready = false; // the worker has said which messages it has
  #received = 0;
  #taken = 0; // messages of ours that the worker has, and those after them that it may lack
  #pending = [];
  #closed = false;
  #lostAt = Date.now();

  constructor(address, WebSocket = globalThis.WebSocket, heartbeat = 5_000) {
    this.#address = new URL(address);
    this.#address.searchParams.set('client', crypto.randomUUID()); // nobody else's connection
    this.#WebSocket = WebSocket;
    this.#heartbeat = setInterval(() => this.#beat(), heartbeat);
    this.#open();
  }

  send(message) {
    this.#pending.push(message);
    if (this.#ready) this.#socket.send(message);
  }

  // close ends the connection: nothing can be resumed. While it is cut off, the worker's patience ends it.
  close() {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    this.#socket?.close(1000);
  }

  #open() {
    if (this.#closed) return;
    this.#silent = 0;
    this.#address.searchParams.set('resume', this.#received);
    const socket = (this.#socket = new this.#WebSocket(this.#address));
    socket.onerror = () => {}; // onclose follows
    socket.onmessage = ({ data }) => socket === this.#socket && this.#take(data);
    socket.onclose = ({ code, reason }) => socket === this.#socket && this.#lost(code, reason);
  }

  #take(data) {
    this.#silent = 0;
    if (data.startsWith('{"method":"Svc.')) return this.#settle(JSON.parse(data));
    this.#received++;
    this.onmessage?.(data);
  }

  // settle forgets what the worker has and, on a new socket, sends what it has not.
  #settle({ method, params }) {
    this.#pending.splice(0, params.received - this.#taken);
    this.#taken = params.received;
    if (method !== 'Svc.resumed') return;
    this.#ready = true;
    this.#lostAt = undefined;
    for (const message of this.#pending) this.#socket.send(message);
  }

  #lost(code, reason) {
    this.cuts++;
    this.#ready = false;
    this.#lostAt ??= Date.now();
    if (!this.#closed && code === 1006 && Date.now() - this.#lostAt < patience) return setTimeout(() => this.#open(), 10);
    clearInterval(this.#heartbeat);
    this.onclose?.(code, reason);
  }

  // beat acknowledges, which the worker answers. A socket that stays silent for longer than a big message takes, even
  // one that is still being opened, hangs: a new one takes over.
  #beat() {
    if (++this.#silent > 3) {
      const hung = this.#socket;
      this.#socket = undefined;
      this.#lost(1006, 'silent');
      hung?.terminate?.(); // a browser's WebSocket can't: the worker closes it
    } else if (this.#ready) this.#socket.send(`{"method":"Svc.ack","params":{"seq":${this.#received}}}`);
  }
}
