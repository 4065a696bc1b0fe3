// The clipboard in both directions: automatic if the device permits it, and with
// the panel on all devices.

// setUpClipboard connects the panel, the device's clipboard and the stream.
export function setUpClipboard(panel, stream) {
  const text = panel.querySelector('#clipboard-text');
  const read = panel.querySelector('#clipboard-read');
  let known = ''; // the text that both sides have

  function send(value) {
    if (!stream.rfb || stream.viewOnly) return;
    known = text.value = value;
    stream.rfb.clipboardPasteFrom(value);
  }

  stream.addEventListener('clipboard', ({detail}) => {
    known = text.value = detail;
    if (document.hasFocus() && !stream.viewOnly) navigator.clipboard?.writeText(detail).catch(() => {}); // the panel shows the text too
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

// mayRead reports whether the device's clipboard can be read without asking the user.
async function mayRead() {
  try {
    return (await navigator.permissions.query({name: 'clipboard-read'})).state === 'granted';
  } catch {
    return false; // this browser always asks
  }
}
