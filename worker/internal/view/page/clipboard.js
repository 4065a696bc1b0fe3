// The clipboard, both ways: by itself where this device permits it, by hand in
// the panel everywhere.

// furnishClipboard connects the panel, the device's clipboard and the stream.
export function furnishClipboard(panel, stream) {
  const text = panel.querySelector('#clipboard-text');
  const read = panel.querySelector('#clipboard-read');
  let known = ''; // what both sides have

  function send(value) {
    if (!stream.rfb || stream.viewOnly) return;
    known = text.value = value;
    stream.rfb.clipboardPasteFrom(value);
  }

  stream.addEventListener('clipboard', ({detail}) => {
    known = text.value = detail;
    if (document.hasFocus() && !stream.viewOnly) navigator.clipboard?.writeText(detail).catch(() => {}); // the panel has it
  });
  panel.querySelector('#clipboard-send').addEventListener('click', () => send(text.value));

  if (!navigator.clipboard?.readText) return;
  read.hidden = false;
  read.addEventListener('click', () => navigator.clipboard.readText().then(send, () => text.focus()));
  addEventListener('focus', async () => {
    if (!stream.live || !await mayRead()) return;
    const value = await navigator.clipboard.readText().catch(() => '');
    if (value && value !== known) send(value);
  });
}

// mayRead reports whether the device's clipboard can be read without a question.
async function mayRead() {
  try {
    return (await navigator.permissions.query({name: 'clipboard-read'})).state === 'granted';
  } catch {
    return false; // this browser always asks
  }
}
