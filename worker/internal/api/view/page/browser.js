// The page of a browser: shows its state and tabs, shares it and ends it.
import * as api from './api.js';
import {Tabs} from './tabs.js';

const find = (id) => document.getElementById(id);
const tabs = new Tabs(find('tabs'), find('tab'), {onError: showError, onClose: close});
let cdp = ''; // the CDP URL with its token

// announce announces a change to screen readers.
function announce(text) {
  find('announcement').textContent = '';
  find('announcement').textContent = text;
}

function showError(error) {
  if (error instanceof api.EndedError) return ended('The browser was ended elsewhere, or your access has expired.');
  const text = error ? `The list of tabs cannot be loaded. ${error.message}` : '';
  find('error').hidden = !text;
  if (!text) find('no-tabs').hidden = find('tabs').childElementCount > 0;
  if (find('error').textContent !== text) find('error').textContent = text;
}

function ended(reason) {
  if (document.body.dataset.state === 'ended') return;
  document.body.dataset.state = 'ended';
  tabs.stop();
  if (find('confirm').open) find('confirm').close();
  for (const part of document.querySelectorAll('.while-running')) part.hidden = true;
  find('state').textContent = 'Ended';
  find('ended-reason').textContent = reason;
  find('ended').hidden = false;
  find('ended').focus();
  announce('The browser has ended.');
}

// runAction runs the action of a button and shows its result.
async function runAction(button, action, done) {
  button.disabled = true;
  try {
    await action();
    if (done) announce(done);
  } catch (error) {
    if (error instanceof api.EndedError) return showError(error);
    find('error').textContent = error.message;
    find('error').hidden = false;
    announce(error.message);
  } finally {
    button.disabled = false;
  }
}

async function close(id) {
  try {
    await api.closeTab(id);
    announce('Tab closed.');
    find('tabs-title').tabIndex = -1;
    find('tabs-title').focus();
    tabs.refresh();
  } catch (error) {
    showError(error);
  }
}

async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    announce('Copied.');
  } catch {
    announce('This device does not allow copying. Select the text instead.');
    return;
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

function showURL() {
  const shown = find('cdp-show').getAttribute('aria-pressed') === 'true';
  find('cdp').textContent = shown ? cdp : cdp.replace(/([?&]ct=)[^&]+/, '$1••••••••');
}

// refreshURL requests a new URL each time, because tokens expire.
async function refreshURL() {
  cdp = await api.cdpURL();
  showURL();
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
  runAction(event.submitter ?? find('open').querySelector('button'), async () => {
    await api.openTab(address);
    find('open-url').value = '';
    tabs.refresh();
  }, 'Tab opened.');
});

find('cdp-show').addEventListener('click', ({currentTarget: button}) => {
  button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') !== 'true');
  showURL();
});
find('cdp-copy').addEventListener('click', ({currentTarget: button}) => runAction(button, async () => {
  await refreshURL();
  await copy(button, cdp);
}));

find('share').addEventListener('click', ({currentTarget: button}) => runAction(button, async () => {
  const ticket = await api.viewTicket();
  find('shared').hidden = false;
  find('shared-url').value = ticket.viewUrl;
  find('shared-until').textContent = `View only. Expires at ${new Date(ticket.viewExpiresAt).toLocaleTimeString()}.`;
  find('shared-copy').focus();
}, 'The view link is ready.'));
find('shared-copy').addEventListener('click', ({currentTarget: button}) => copy(button, find('shared-url').value));

find('end').addEventListener('click', () => find('confirm').showModal());
find('confirm').addEventListener('close', () => {
  if (find('confirm').returnValue !== 'yes') return;
  runAction(find('end'), async () => {
    await api.endBrowser();
    ended('You ended the browser from this page.');
  });
});

tabs.refresh();
refreshURL().catch(showError);
