// Shows the browser's picture and, to those who may, hands over its keyboard
// and pointer.
import {furnishClipboard} from './clipboard.js';
import {furnishKeys} from './keys.js';
import {Stream} from './stream.js';

const find = (id) => document.getElementById(id);
const body = document.body;
const mayControl = 'mayControl' in body.dataset;
const screen = find('screen');
const stream = new Stream(screen, !mayControl);
let letGo = () => {}; // of the keys held by buttons

function say(text) {
  const state = find('state');
  if (state.textContent !== text) state.textContent = text; // said aloud only when it changes
}

function describe() {
  const canvas = screen.querySelector('canvas');
  if (!canvas) return;
  const control = !stream.viewOnly;
  canvas.tabIndex = control ? 0 : -1;
  canvas.setAttribute('role', control ? 'application' : 'img');
  canvas.setAttribute('aria-label', control ? 'The browser, which gets your keys' : 'The browser');
  if (control) canvas.setAttribute('aria-describedby', 'hint');
  if (mayControl) {
    find('hint').hidden = !control;
    find('released').hidden = control;
  }
  say(control ? 'Live, in control' : mayControl ? 'Live, control released' : 'Live, watching');
}

// permit lets the panels act only while what they send arrives.
function permit() {
  for (const button of document.querySelectorAll('.panel button')) button.disabled = !stream.live || stream.viewOnly;
}

const words = {connecting: 'Connecting', reconnecting: 'Reconnecting', ended: 'Ended'};

stream.addEventListener('state', ({detail: {name, message}}) => {
  body.dataset.state = name;
  find('notice').hidden = name === 'live';
  find('message').textContent = name === 'reconnecting' ? `${message} Trying again.` : message;
  find('retry').hidden = name !== 'reconnecting';
  permit();
  if (name === 'live') return describe();
  say(words[name]);
  if (name === 'ended') {
    for (const part of document.querySelectorAll('header .row, .panel, .hint')) part.hidden = true;
    if (document.fullscreenElement) document.exitFullscreen();
  }
});
find('retry').addEventListener('click', () => stream.retry());

function furnishFullscreen() {
  const button = find('fullscreen');
  if (!document.fullscreenEnabled) return;
  button.hidden = false;
  button.addEventListener('click', () => document.querySelector('main').requestFullscreen().catch(() => {}));
}

// furnishPanel makes a button open and close its panel; Escape closes it too.
function furnishPanel(name) {
  const button = find(`${name}-button`), panel = find(name);
  function show(open) {
    panel.hidden = !open;
    button.setAttribute('aria-expanded', open);
    letGo();
  }
  button.addEventListener('click', () => show(panel.hidden));
  panel.addEventListener('keydown', ({key}) => {
    if (key !== 'Escape') return;
    show(false);
    button.focus();
  });
}

// furnishEscape brings a keyboard user out of the picture, once all three keys
// are up again: so the browser sees them go up too.
function furnishEscape() {
  let leaving = false;
  addEventListener('keydown', (event) => {
    leaving ||= event.ctrlKey && event.altKey && event.shiftKey && screen.contains(event.target);
  }, true);
  addEventListener('keyup', (event) => {
    if (!leaving || event.ctrlKey || event.altKey || event.shiftKey) return;
    leaving = false;
    find('control').focus();
  }, true); // the picture lets no key pass
}

function furnishControl() {
  const button = find('control');
  button.addEventListener('click', () => {
    letGo();
    stream.viewOnly = !stream.viewOnly;
    button.setAttribute('aria-pressed', !stream.viewOnly);
    if (stream.live) describe();
    permit();
  });
  letGo = furnishKeys(find('keys'), stream);
  furnishClipboard(find('clipboard'), stream);
  furnishPanel('keys');
  furnishPanel('clipboard');
  furnishEscape();
  permit();
}

furnishFullscreen();
if (mayControl) furnishControl();
stream.connect();
