// Shows a picture of the browser about once a second, for as long as somebody
// looks and the browser runs.

const interval = 1000; // ms from the start of one picture to that of the next
const longestWait = 15000; // ms, after failures

const screen = document.getElementById('screen');
const state = document.getElementById('state');
const message = document.getElementById('message');
const taken = document.getElementById('taken');
const pause = document.getElementById('pause');
const devtools = document.querySelector('nav a');

let paused = false;
let ended = false;
let failures = 0;
let timer;
let running; // the request under way

function show(name, text, detail = '') {
  document.body.dataset.state = name;
  if (state.textContent !== text) state.textContent = text; // said aloud only when it changes
  message.textContent = detail;
  message.hidden = detail === '';
}

async function display(blob) {
  const previous = screen.src;
  screen.src = URL.createObjectURL(blob);
  await screen.decode();
  screen.hidden = false;
  if (previous) URL.revokeObjectURL(previous);
}

function end() {
  ended = true;
  pause.disabled = true;
  devtools.hidden = true;
  show('ended', 'Ended', 'The browser has ended, or your access to it has. Open a new link to watch another one.');
}

async function refresh() {
  running = new AbortController();
  const response = await fetch('screenshot', {cache: 'no-store', signal: running.signal});
  if (response.status === 404) return end();
  if (response.status === 409) return show('connected', 'Connected', 'The browser has no page open.');
  if (!response.ok) throw new Error(`status ${response.status}`);
  await display(await response.blob());
  if (resting()) return; // the picture came too late to be called off
  taken.textContent = `Picture of ${new Date().toLocaleTimeString()}`;
  show('connected', 'Connected');
}

async function loop() {
  const started = performance.now();
  try {
    await refresh();
    failures = 0;
  } catch (error) {
    if (error.name !== 'AbortError') {
      failures++;
      show('connecting', 'Trying again', failures > 2 ? 'No picture arrives. The worker may be out of reach.' : '');
    }
  } finally {
    running = undefined;
  }
  if (ended || resting()) return;
  const wait = failures ? Math.min(interval * 2 ** failures, longestWait) : interval - (performance.now() - started);
  timer = setTimeout(loop, Math.max(wait, 100));
}

function resting() {
  return paused || document.hidden;
}

// update begins or stops asking for pictures, as the button and the tab say.
function update() {
  if (ended) return;
  clearTimeout(timer);
  if (resting()) {
    running?.abort();
    show('paused', 'Paused');
  } else if (!running) {
    loop();
  }
}

pause.addEventListener('click', () => {
  paused = !paused;
  pause.textContent = paused ? 'Resume' : 'Pause';
  update();
});
document.addEventListener('visibilitychange', update);
update();
