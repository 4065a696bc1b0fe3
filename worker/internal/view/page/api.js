// The launch's routes, as the page uses them.

// EndedError says that there is no such browser, or no longer.
export class EndedError extends Error {}

async function ask(path, method = 'GET', body = undefined) {
  const response = await fetch(path, {
    method, cache: 'no-store', signal: AbortSignal.timeout(20000),
    ...body && {headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)},
  });
  if (response.ok) return response;
  const text = await response.text();
  if (response.status === 404 && text === 'unknown browser') throw new EndedError(text);
  throw new Error(messageOf(text) ?? `The worker answered with status ${response.status}.`);
}

function messageOf(text) {
  try {
    return JSON.parse(text).error?.message;
  } catch {
    return undefined;
  }
}

export const tabs = async () => (await (await ask('json/list')).json()).filter((target) => target.type === 'page');

export const cdpAddress = async () => (await (await ask('json/version')).json()).webSocketDebuggerUrl;

export const picture = async (id) => (await ask(`screenshot?${new URLSearchParams({targetId: id, format: 'jpeg'})}`)).blob();

export const openTab = (address) => ask(`json/new?${encodeURIComponent(address)}`, 'PUT');

// By POST: with a GET, browsers don't always tell the worker that it is this page that asks.
export const closeTab = (id) => ask('close', 'POST', {targetId: id});

export const endBrowser = () => ask('close', 'POST');

export async function viewTicket() {
  const answer = await (await ask('view-ticket', 'POST')).json();
  return answer.data ?? answer;
}
