const resumeTimeout = 30_000; // ms, as long as the worker keeps a connection

// ResumingTransport is a transport for puppeteer that continues on a new connection after a break: it counts the messages that it
// receives, and resumes with a new socket. If the worker sends a close frame, the connection has ended. Otherwise the
// status is 1006 and the transport resumes.
export class ResumingTransport {
  onmessage;
  onclose;
  cuts = 0;
  #address;
  #WebSocket;
  #heartbeat;
  #socket;
  #missedHeartbeats = 0; // heartbeats since the last message from the worker
  #ready = false; // the worker has confirmed the messages that it received
  #received = 0;
  #acknowledged = 0; // the number of messages that the worker has received; #pending contains the later ones
  #pending = [];
  #closed = false;
  #disconnectedAt = Date.now();

  constructor(address, WebSocket = globalThis.WebSocket, heartbeat = 5_000) {
    this.#address = new URL(address);
    this.#address.searchParams.set('client', crypto.randomUUID()); // identifies this connection
    this.#WebSocket = WebSocket;
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), heartbeat);
    this.#open();
  }

  send(message) {
    this.#pending.push(message);
    if (this.#ready) this.#socket.send(message);
  }

  // close ends the connection; it cannot be resumed. If the socket is cut off, the worker ends the connection after
  // resumeTimeout.
  close() {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    this.#socket?.close(1000);
  }

  #open() {
    if (this.#closed) return;
    this.#missedHeartbeats = 0;
    this.#address.searchParams.set('resume', this.#received);
    const socket = (this.#socket = new this.#WebSocket(this.#address));
    socket.onerror = () => {}; // onclose follows
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(data);
    socket.onclose = ({ code, reason }) => socket === this.#socket && this.#disconnected(code, reason);
  }

  #receive(data) {
    this.#missedHeartbeats = 0;
    if (data.startsWith('{"method":"Svc.')) return this.#acknowledge(JSON.parse(data));
    this.#received++;
    this.onmessage?.(data);
  }

  // acknowledge removes the messages that the worker has received and, on a new socket, sends the others again.
  #acknowledge({ method, params }) {
    this.#pending.splice(0, params.received - this.#acknowledged);
    this.#acknowledged = params.received;
    if (method !== 'Svc.resumed') return;
    this.#ready = true;
    this.#disconnectedAt = undefined;
    for (const message of this.#pending) this.#socket.send(message);
  }

  #disconnected(code, reason) {
    this.cuts++;
    this.#ready = false;
    this.#disconnectedAt ??= Date.now();
    if (!this.#closed && code === 1006 && Date.now() - this.#disconnectedAt < resumeTimeout) return setTimeout(() => this.#open(), 10);
    clearInterval(this.#heartbeat);
    this.onclose?.(code, reason);
  }

  // sendHeartbeat sends an acknowledgment, which the worker answers. If the socket, open or opening, has received nothing for
  // longer than a large message takes, it hangs, and a new socket replaces it.
  #sendHeartbeat() {
    if (++this.#missedHeartbeats > 3) {
      const socket = this.#socket;
      this.#socket = undefined;
      this.#disconnected(1006, 'silent');
      socket?.terminate?.(); // a browser's WebSocket has no terminate(); the worker closes it
    } else if (this.#ready) this.#socket.send(`{"method":"Svc.ack","params":{"seq":${this.#received}}}`);
  }
}
