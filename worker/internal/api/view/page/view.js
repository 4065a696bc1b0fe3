// The live view page: shows the browser's picture and, with control, sends keyboard
// and pointer input.
import {setUpClipboard} from './clipboard.js';
import {setUpExpiry} from './expiry.js';
import {setUpHandover} from './handover.js';
import {setUpKeys} from './keys.js';
import {setUpQuestions} from './question.js';
import {Stream} from './stream.js';
import {Zoom} from './zoom.js';

const find = (id) => document.getElementById(id);
const body = document.body;
const mayControl = 'mayControl' in body.dataset;
const screen = find('screen');
const stream = new Stream(screen, !mayControl);
let releaseKeys = () => {}; // releases the keys held by buttons

function setState(text) {
  const state = find('state');
  if (state.textContent !== text) state.textContent = text; // screen readers announce only changes
}

function describe() {
  const canvas = screen.querySelector('canvas');
  if (!canvas) return;
  const control = !stream.viewOnly;
  canvas.tabIndex = control ? 0 : -1;
  canvas.setAttribute('role', control ? 'application' : 'img');
  canvas.setAttribute('aria-label', control ? 'The browser, which receives your keys' : 'The browser');
  if (control) canvas.setAttribute('aria-describedby', 'hint');
  if (mayControl) {
    find('hint').hidden = !control;
    find('released').hidden = control;
  }
  setState(control ? 'Live, in control' : mayControl ? 'Live, control released' : 'Live, watching');
}

// setUpZoom shows the controls for zoom and pan on touch screens and in narrow windows.
// Without control, and after Move, touches move the picture.
function setUpZoom() {
  if (!matchMedia('(pointer: coarse), (max-width: 40rem)').matches) return;
  const zoom = new Zoom(find('viewport'), screen, find('pan')), move = find('move');
  const update = () => {
    move.hidden = stream.viewOnly;
    zoom.panning = stream.viewOnly || move.ariaPressed === 'true';
  };
  move.addEventListener('click', () => {
    move.ariaPressed = move.ariaPressed !== 'true';
    update();
  });
  for (const [id, action] of [['zoom-in', () => zoom.in()], ['zoom-out', () => zoom.out()]]) {
    find(id).hidden = false;
    find(id).addEventListener('click', action);
  }
  stream.addEventListener('control', update);
  stream.addEventListener('state', ({detail: {name}}) => name === 'live' && zoom.fill());
  update();
}

// updatePanels enables the panels only while input is sent.
function updatePanels() {
  for (const button of document.querySelectorAll('.panel button')) button.disabled = !stream.live || stream.viewOnly;
}

const words = {connecting: 'Connecting', reconnecting: 'Reconnecting', ended: 'Ended'};

stream.addEventListener('state', ({detail: {name, message}}) => {
  body.dataset.state = name;
  find('notice').hidden = name === 'live';
  find('message').textContent = name === 'reconnecting' ? `${message} Reconnecting.` : message;
  find('retry').hidden = name !== 'reconnecting';
  updatePanels();
  if (name === 'live') return describe();
  setState(words[name]);
  if (name === 'ended') {
    for (const part of document.querySelectorAll('header .row, .panel, .hint')) part.hidden = true;
    if (document.fullscreenElement) document.exitFullscreen();
  }
});
find('retry').addEventListener('click', () => stream.retry());

function setUpFullscreen() {
  const button = find('fullscreen');
  if (!document.fullscreenEnabled) return;
  button.hidden = false;
  button.addEventListener('click', () => document.querySelector('main').requestFullscreen().catch(() => {}));
}

// setUpPanel makes a button open and close its panel. Escape closes the panel.
function setUpPanel(name) {
  const button = find(`${name}-button`), panel = find(name);
  function show(open) {
    panel.hidden = !open;
    button.setAttribute('aria-expanded', open);
    releaseKeys();
  }
  button.addEventListener('click', () => show(panel.hidden));
  panel.addEventListener('keydown', ({key}) => {
    if (key !== 'Escape') return;
    show(false);
    button.focus();
  });
}

// setUpEscape moves the focus out of the picture after Ctrl+Alt+Shift. It waits until
// all three keys are released, so that the browser receives their release too.
function setUpEscape() {
  let leaving = false;
  addEventListener('keydown', (event) => {
    leaving ||= event.ctrlKey && event.altKey && event.shiftKey && screen.contains(event.target);
  }, true);
  addEventListener('keyup', (event) => {
    if (!leaving || event.ctrlKey || event.altKey || event.shiftKey) return;
    leaving = false;
    find('control').focus();
  }, true); // capturing, because the picture stops key events
}

function setUpControl() {
  const button = find('control');
  button.addEventListener('click', () => {
    releaseKeys();
    stream.viewOnly = !stream.viewOnly;
    button.setAttribute('aria-pressed', !stream.viewOnly);
    if (stream.live) describe();
    updatePanels();
  });
  releaseKeys = setUpKeys(find('keys'), stream);
  setUpClipboard(find('clipboard'), stream);
  setUpPanel('keys');
  setUpPanel('clipboard');
  setUpEscape();
  updatePanels();
}

setUpFullscreen();
setUpHandover(stream);
setUpQuestions(stream);
setUpExpiry(stream);
setUpZoom();
if (mayControl) setUpControl();
stream.connect();
