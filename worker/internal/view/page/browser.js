// Tells what a browser does, and lets its owner share and end it.
import * as api from './api.js';
import {Tabs} from './tabs.js';

const find = (id) => document.getElementById(id);
const tabs = new Tabs(find('tabs'), find('tab'), {onError: trouble, onClose: close});
let cdp = ''; // the address, with its token

// say is for everybody who doesn't see what changed.
function say(text) {
  find('said').textContent = '';
  find('said').textContent = text;
}

function trouble(error) {
  if (error instanceof api.EndedError) return ended('It was ended elsewhere, or your access to it has.');
  const text = error ? `The tabs can't be read just now. ${error.message}` : '';
  find('trouble').hidden = !text;
  if (!text) find('none').hidden = find('tabs').childElementCount > 0;
  if (find('trouble').textContent !== text) find('trouble').textContent = text;
}

function ended(why) {
  if (document.body.dataset.state === 'ended') return;
  document.body.dataset.state = 'ended';
  tabs.stop();
  if (find('confirm').open) find('confirm').close();
  for (const part of document.querySelectorAll('.while-running')) part.hidden = true;
  find('state').textContent = 'Ended';
  find('ended-why').textContent = why;
  find('ended').hidden = false;
  find('ended').focus();
  say('The browser has ended.');
}

// attempt does what a button asks for, and says what came of it.
async function attempt(button, what, done) {
  button.disabled = true;
  try {
    await what();
    if (done) say(done);
  } catch (error) {
    if (error instanceof api.EndedError) return trouble(error);
    find('trouble').textContent = error.message;
    find('trouble').hidden = false;
    say(error.message);
  } finally {
    button.disabled = false;
  }
}

async function close(id) {
  try {
    await api.closeTab(id);
    say('Tab closed.');
    find('tabs-title').tabIndex = -1;
    find('tabs-title').focus();
    tabs.refresh();
  } catch (error) {
    trouble(error);
  }
}

async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    say('Copied.');
  } catch {
    say('This device does not allow copying. Select the text instead.');
    return;
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

function showAddress() {
  const shown = find('cdp-show').getAttribute('aria-pressed') === 'true';
  find('cdp').textContent = shown ? cdp : cdp.replace(/([?&]ct=)[^&]+/, '$1••••••••');
}

// freshAddress asks anew each time: tokens expire.
async function freshAddress() {
  cdp = await api.cdpAddress();
  showAddress();
}

find('since').textContent = new Date(find('since').dateTime).toLocaleString();

find('pause').addEventListener('click', ({currentTarget: button}) => {
  tabs.pictures = !tabs.pictures;
  button.setAttribute('aria-pressed', !tabs.pictures);
  if (tabs.pictures) tabs.refresh();
});

find('open').addEventListener('submit', (event) => {
  event.preventDefault();
  const given = find('open-url').value.trim();
  const address = !given ? 'about:blank' : /^[a-z][a-z0-9+.-]*:/i.test(given) && !/^[^/]*:\d+(\/|$)/.test(given) ? given : `https://${given}`;
  attempt(event.submitter ?? find('open').querySelector('button'), async () => {
    await api.openTab(address);
    find('open-url').value = '';
    tabs.refresh();
  }, 'Tab opened.');
});

find('cdp-show').addEventListener('click', ({currentTarget: button}) => {
  button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') !== 'true');
  showAddress();
});
find('cdp-copy').addEventListener('click', ({currentTarget: button}) => attempt(button, async () => {
  await freshAddress();
  await copy(button, cdp);
}));

find('share').addEventListener('click', ({currentTarget: button}) => attempt(button, async () => {
  const ticket = await api.viewTicket();
  find('shared').hidden = false;
  find('shared-url').value = ticket.viewUrl;
  find('shared-until').textContent = `Opens until ${new Date(ticket.viewExpiresAt).toLocaleTimeString()}, and only watches.`;
  find('shared-copy').focus();
}, 'A link for watching is ready.'));
find('shared-copy').addEventListener('click', ({currentTarget: button}) => copy(button, find('shared-url').value));

find('end').addEventListener('click', () => find('confirm').showModal());
find('confirm').addEventListener('close', () => {
  if (find('confirm').returnValue !== 'yes') return;
  attempt(find('end'), async () => {
    await api.endBrowser();
    ended('You ended it from this page.');
  });
});

tabs.refresh();
freshAddress().catch(trouble);
