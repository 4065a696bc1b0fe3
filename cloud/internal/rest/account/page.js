// The token is in the fragment, which no server sees. It leaves the address bar at once.
const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? '';
history.replaceState(null, '', location.pathname);

const form = document.querySelector('form');
const status = document.querySelector('[role=status]');

if (!token) {
  status.textContent = 'This link is incomplete. Open the link in the e-mail again.';
  form.hidden = true;
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = form.querySelector('button');
  button.disabled = true;
  try {
    const response = await fetch(form.dataset.path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...Object.fromEntries(new FormData(form)), token }),
    });
    const answer = await response.json();
    form.hidden = answer.success;
    status.textContent = answer.success ? form.dataset.done : explain(answer.error);
  } catch {
    status.textContent = 'The service cannot be reached. Try again.';
  }
  button.disabled = false;
});

function explain(error) {
  if (error.code === 'AUTHENTICATION_ERROR') {
    return 'Sign in first, then open the link in the e-mail again.';
  }
  const details = (error.details ?? []).map((detail) => `The ${detail.field} ${detail.message}.`);
  return details.join(' ') || error.message;
}
