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
  say(control ? 'Live, in control' : mayControl ? 'Live, control released' : 'Live, watching');
}

const words = {connecting: 'Connecting', reconnecting: 'Reconnecting', ended: 'Ended'};

stream.addEventListener('state', ({detail: {name, message}}) => {
  body.dataset.state = name;
  find('notice').hidden = name === 'live';
  find('message').textContent = name === 'reconnecting' ? `${message} Trying again.` : message;
  find('retry').hidden = name !== 'reconnecting';
  if (name === 'live') return describe();
  say(words[name]);
  if (name === 'ended') {
    for (const button of document.querySelectorAll('header button, .panel button')) button.disabled = true;
    for (const part of document.querySelectorAll('.panel, .hint, #details')) part.hidden = true;
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

// furnishPanel makes a button open and close its panel.
function furnishPanel(name) {
  const button = find(`${name}-button`), panel = find(name);
  button.addEventListener('click', () => {
    panel.hidden = !panel.hidden;
    button.setAttribute('aria-expanded', !panel.hidden);
    letGo();
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
  });
  letGo = furnishKeys(find('keys'), stream);
  furnishClipboard(find('clipboard'), stream);
  furnishPanel('keys');
  furnishPanel('clipboard');
  furnishEscape();
}

furnishFullscreen();
if (mayControl) furnishControl();
stream.connect();
