// The banner of the last minute before the worker ends the browser.
import {updateLifetime} from './api.js';

const find = (id) => document.getElementById(`expiry${id}`);

// More seconds for a limit that counts from the start.
const more = 600;

const reasons = {
  idle: {text: 'No client is active.', field: 'idleTimeoutSeconds', action: 'Keep running', longer: (limit) => limit},
  max_duration: {text: 'The maximum duration is reached.', field: 'maxDurationSeconds', action: 'Extend by 10 minutes', longer: (limit) => limit + more},
  never_connected: {text: 'No client has used the browser.', field: 'connectTimeoutSeconds', action: 'Extend by 10 minutes', longer: (limit) => limit + more},
};

export function setUpExpiry(stream) {
  const banner = find(''), reason = find('-reason'), left = find('-left'), failed = find('-failed'), extend = find('-extend');
  let end = 0, timer, current;

  function count() {
    left.textContent = `Ends in ${Math.max(Math.round((end - performance.now()) / 1000), 0)} s`;
  }

  function show(expiry) {
    clearInterval(timer);
    if (current?.reason !== expiry?.reason) failed.textContent = '';
    current = expiry;
    banner.hidden = !expiry;
    if (!expiry) return;
    const {text, action} = reasons[expiry.reason];
    if (reason.textContent !== text) reason.textContent = text; // screen readers announce only changes
    if (extend) extend.textContent = action;
    end = performance.now() + expiry.secondsLeft * 1000;
    count();
    timer = setInterval(count, 1000);
  }

  stream.addEventListener('expiry', ({detail}) => show(detail));
  stream.addEventListener('state', ({detail: {name}}) => name === 'ended' && show(null));
  extend?.addEventListener('click', async () => {
    const {field, longer} = reasons[current.reason];
    failed.textContent = '';
    extend.disabled = true;
    try {
      await updateLifetime({[field]: longer(current.limitSeconds)});
    } catch (error) {
      failed.textContent = error.message;
    } finally {
      extend.disabled = false;
    }
  });
}
