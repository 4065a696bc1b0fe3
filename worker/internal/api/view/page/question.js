// The banner that asks a person whether the browser may open a document.
import {answerQuestion} from './api.js';

const find = (id) => document.getElementById(`question${id}`);

// Milliseconds before a question can be answered: a click that was meant for the question
// before must not count for it.
const pause = 1000;

export function setUpQuestions(stream) {
  const banner = find(''), address = find('-url'), rule = find('-rule'), left = find('-left'), failed = find('-failed');
  const buttons = [...banner.querySelectorAll('button')];
  let current, end = 0, timer, enabling;

  function count() {
    const seconds = Math.max(Math.round((end - performance.now()) / 1000), 0);
    left.textContent = `Refused in ${seconds < 60 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`}`;
  }

  function enable() {
    for (const button of buttons) button.disabled = false;
  }

  function replace(question) {
    clearTimeout(enabling);
    failed.textContent = '';
    for (const button of buttons) button.disabled = true;
    if (question) enabling = setTimeout(enable, pause);
    if (question && document.fullscreenElement) document.exitFullscreen(); // the banner is not in it
  }

  function show(questions) {
    clearInterval(timer);
    const question = questions.find(({id}) => id === current?.id) ?? questions[0];
    banner.hidden = !question;
    if (current?.id !== question?.id) replace(question);
    current = question;
    if (!question) return;
    if (address.textContent !== question.url) address.textContent = question.url; // screen readers announce only changes
    rule.textContent = `${question.origin} · ${question.rule}${questions.length > 1 ? ` · ${questions.length - 1} more` : ''}`;
    end = performance.now() + question.secondsLeft * 1000;
    count();
    timer = setInterval(count, 1000);
  }

  stream.addEventListener('questions', ({detail}) => show(detail));
  stream.addEventListener('state', ({detail: {name}}) => name === 'ended' && show([]));
  for (const button of buttons) {
    button.addEventListener('click', async () => {
      const {id} = current;
      replace();
      try {
        await answerQuestion(id, button.value);
      } catch (error) {
        failed.textContent = error.message;
        if (current?.id === id) enable();
      }
    });
  }
}
