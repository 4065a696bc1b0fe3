// Playwright's server for one browser, in a sandbox.
//
// Playwright starts a browser with pipes for CDP, and gets connectPipes as a program instead: it connects the pipes with
// the browser of the launch, whose CDP the worker serves at browser, a host and port. The same port is the browser's proxy.
const [, library, port, wsPath, browser, browserPath, temp, downloads, slowMo, ffmpeg] = process.argv;
const fs = require('fs');

process.env.TMPDIR = temp;
process.env.PLAYWRIGHT_BROWSERS_PATH = '/tmp/playwright';
process.title = 'playwright';

// connectPipes carries messages between the descriptors 3 and 4, where each ends with a zero byte, and a WebSocket.
function connectPipes(browser, path) {
  const net = require('net'), fs = require('fs'), crypto = require('crypto');
  const send = (opcode, payload) => {
    const n = payload.length, head = Buffer.alloc(n < 126 ? 6 : n < 65536 ? 8 : 14);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (n < 126 ? n : n < 65536 ? 126 : 127);
    if (n >= 65536) head.writeBigUInt64BE(BigInt(n), 2); else if (n >= 126) head.writeUInt16BE(n, 2);
    return socket.write(Buffer.concat([head, payload]));
  };
  const input = fs.createReadStream(null, { fd: 3 }), output = fs.createWriteStream(null, { fd: 4 });
  const end = () => process.exit(0);
  const [host, port] = browser.split(':');
  const socket = net.connect(port, host, () => socket.write('GET ' + path + ' HTTP/1.1\r\nHost: ' + browser +
    '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ' + crypto.randomBytes(16).toString('base64') + '\r\n\r\n'));
  socket.setNoDelay(true);
  socket.on('error', end).on('close', end);
  input.on('error', end).on('end', end);
  output.on('error', end);
  let received = [], length = 0, open = false, parts = [];
  const take = n => {
    if (received.length !== 1) received = [Buffer.concat(received)];
    const taken = received[0].subarray(0, n);
    received[0] = received[0].subarray(n);
    length -= n;
    return taken;
  };
  const peek = n => {
    if (received[0].length < n) received = [Buffer.concat(received)];
    return received[0];
  };
  const frame = () => { // the next complete frame
    if (length < 2) return;
    const short = peek(2)[1] & 0x7f, head = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (length < head) return;
    const b = peek(head), n = short < 126 ? short : short === 126 ? b.readUInt16BE(2) : Number(b.readBigUInt64BE(2));
    if (length < head + n) return;
    const first = b[0];
    take(head);
    return { final: first & 0x80, opcode: first & 0x0f, payload: take(n) };
  };
  socket.on('data', data => {
    received.push(data);
    length += data.length;
    if (!open) {
      const end = peek(length).indexOf('\r\n\r\n');
      if (end < 0) return;
      if (!take(end + 4).toString('latin1').startsWith('HTTP/1.1 101')) process.exit(1);
      open = true;
      input.resume();
    }
    for (let f; (f = frame());) {
      if (f.opcode === 8) return end();
      if (f.opcode === 9) { send(10, f.payload); continue; }
      if (f.opcode > 2) continue;
      parts.push(f.payload);
      if (!f.final) continue;
      parts.push(Buffer.from([0]));
      if (!output.write(Buffer.concat(parts))) { socket.pause(); output.once('drain', () => socket.resume()); }
      parts = [];
    }
  });
  let message = [];
  input.on('data', data => {
    for (let at; (at = data.indexOf(0)) >= 0; data = data.subarray(at + 1)) {
      message.push(data.subarray(0, at));
      if (!send(1, Buffer.concat(message))) { input.pause(); socket.once('drain', () => input.resume()); }
      message = [];
    }
    if (data.length) message.push(data);
  });
  input.pause();
}

// Playwright looks for its own ffmpeg, in a directory with the revision that the version needs.
if (ffmpeg) {
  const { browsers } = JSON.parse(fs.readFileSync(library + '/browsers.json', 'utf8'));
  const dir = process.env.PLAYWRIGHT_BROWSERS_PATH + '/ffmpeg-' + browsers.find(b => b.name === 'ffmpeg').revision;
  fs.mkdirSync(dir, { recursive: true });
  fs.symlinkSync(ffmpeg, dir + '/ffmpeg-linux');
}

require(library).chromium.launchServer({
  executablePath: process.execPath, ignoreDefaultArgs: true,
  args: ['-e', '(' + connectPipes + ')(' + JSON.stringify(browser) + ',' + JSON.stringify(browserPath) + ')'],
  host: '127.0.0.1', port: Number(port), wsPath, downloadsPath: downloads || undefined, proxy: { server: 'http://' + browser }, slowMo: Number(slowMo),
}).then(server => server.on('close', () => process.exit(0)), error => {
  console.error(error.message);
  process.exit(1);
});
