// The routes of the launch that the page uses.

// EndedError means that the browser has ended or the access has expired.
export class EndedError extends Error {}

async function request(path, method = 'GET', body = undefined) {
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

export const tabs = async () => (await (await request('json/list')).json()).filter((target) => target.type === 'page');

export const cdpURL = async () => (await (await request('json/version')).json()).webSocketDebuggerUrl;

export const picture = async (id) => (await request(`screenshot?${new URLSearchParams({targetId: id, format: 'jpeg'})}`)).blob();

export const openTab = (address) => request(`json/new?${encodeURIComponent(address)}`, 'PUT');

// Uses POST, because not all browsers prove the origin of a GET request.
export const closeTab = (id) => request('close', 'POST', {targetId: id});

export const endBrowser = () => request('close', 'POST');

export const completeHandover = () => request('handover/done', 'POST');

export const answerQuestion = (id, answer) => request(`handover/questions/${id}`, 'POST', {answer});

export const updateLifetime = (limits) => request('lifetime', 'PATCH', limits);

export async function viewTicket() {
  const answer = await (await request('view-ticket', 'POST')).json();
  return answer.data ?? answer;
}
