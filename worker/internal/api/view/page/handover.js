// The banner that asks a person for help and says for how long.
import {completeHandover} from './api.js';

const find = (id) => document.getElementById(`handover${id}`);

export function setUpHandover(stream) {
  const banner = find(''), reason = find('-reason'), left = find('-left'), failed = find('-failed'), done = find('-done');
  let end = 0, timer;

  function count() {
    const seconds = Math.max(Math.round((end - performance.now()) / 1000), 0);
    const text = seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.ceil(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h ${Math.ceil(seconds % 3600 / 60)} min`;
    left.textContent = `Time left: ${text}`;
  }

  function show(handover) {
    clearInterval(timer);
    banner.hidden = !handover;
    reason.textContent = handover?.reason ?? '';
    failed.textContent = '';
    if (!handover) return;
    end = performance.now() + handover.secondsLeft * 1000;
    count();
    timer = setInterval(count, 1000);
    if (document.fullscreenElement) document.exitFullscreen(); // the banner is not in it
  }

  stream.addEventListener('handover', ({detail}) => show(detail));
  stream.addEventListener('state', ({detail: {name}}) => name === 'ended' && show(null));
  done?.addEventListener('click', async () => {
    failed.textContent = '';
    done.disabled = true;
    try {
      await completeHandover();
    } catch (error) {
      failed.textContent = error.message;
    } finally {
      done.disabled = false;
    }
  });
}
