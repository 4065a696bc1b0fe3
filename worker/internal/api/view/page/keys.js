// Keys for devices without a keyboard: buttons for keys that phones lack, and input
// from the phone's keyboard.
import KeyTable from './novnc/core/input/keysym.js';
import keysyms from './novnc/core/input/keysymdef.js';

const codes = {
  ControlLeft: KeyTable.XK_Control_L,
  AltLeft: KeyTable.XK_Alt_L,
  Escape: KeyTable.XK_Escape,
  Tab: KeyTable.XK_Tab,
  Enter: KeyTable.XK_Return,
  Backspace: KeyTable.XK_BackSpace,
  ArrowLeft: KeyTable.XK_Left,
  ArrowUp: KeyTable.XK_Up,
  ArrowDown: KeyTable.XK_Down,
  ArrowRight: KeyTable.XK_Right,
};

// setUpKeys makes the buttons in panel send keys to the stream. It returns a
// function that releases the held keys.
export function setUpKeys(panel, stream) {
  const held = panel.querySelectorAll('[data-hold]');

  function hold(button, down) {
    button.setAttribute('aria-pressed', down);
    stream.rfb?.sendKey(codes[button.dataset.hold], button.dataset.hold, down);
  }

  function release() {
    for (const button of held) {
      if (button.getAttribute('aria-pressed') === 'true') hold(button, false);
    }
  }

  function press(keysym, code) {
    stream.rfb?.sendKey(keysym, code);
    release(); // Ctrl and Alt apply to one key
  }

  for (const button of held) {
    button.addEventListener('click', () => hold(button, button.getAttribute('aria-pressed') !== 'true'));
  }
  for (const button of panel.querySelectorAll('[data-press]')) {
    button.addEventListener('click', () => press(codes[button.dataset.press], button.dataset.press));
  }
  setUpTyping(panel.querySelector('#typing'), panel.querySelector('#keyboard'), press);
  return release;
}

// setUpTyping converts the input of a text field to keys. It sends the difference to
// the previous text, because phone keyboards replace whole words.
function setUpTyping(field, button, press) {
  const filler = '_'.repeat(64); // gives Backspace characters to delete
  let before= filler;

  function refill() {
    field.value = before= filler;
    field.setSelectionRange(filler.length, filler.length);
  }

  button.addEventListener('click', () => {
    refill();
    field.focus({preventScroll: true});
  });
  field.addEventListener('input', (event) => {
    const was = [...before], is = [...field.value];
    let same = 0;
    while (same < was.length && same < is.length && was[same] === is[same]) same++;
    for (let i = same; i < was.length; i++) press(codes.Backspace, 'Backspace');
    for (const character of is.slice(same)) {
      if (character === '\n') press(codes.Enter, 'Enter');
      else press(keysyms.lookup(character.codePointAt(0)));
    }
    before = field.value;
    if (!event.isComposing && (is.length < 16 || is.length > 256)) refill();
  });
}
