// The scenario from sign-in to sign-out, with the client of openapi-fetch.
import createClient from 'openapi-fetch';
import type { ErrorDetailCode, paths as CloudPaths } from './svc/cloud.js';
import type { BrowserSession, ErrorResponse, paths as WorkerPaths } from './svc/worker.js';
import { expect, ok, readSeed } from './seed.js';

const seed = readSeed();

// Each API has one client for each credential.
const cloud = createClient<CloudPaths>({ baseUrl: seed.cloudUrl });
const organizationCloud = createClient<CloudPaths>({ baseUrl: seed.cloudUrl, headers: { 'X-API-Key': seed.organizationKey } });
const fullOrganizationCloud = createClient<CloudPaths>({ baseUrl: seed.cloudUrl, headers: { 'X-API-Key': seed.full.organizationKey } });
const worker = createClient<WorkerPaths>({ baseUrl: seed.workerUrl, headers: { 'X-API-Key': seed.workerKey } });

/** Returns the data of the response, or throws an error with the code of the failure. */
function unwrap<T>(result: { data?: { data: T }; error?: unknown; response: Response }): T {
  if (result.data) return result.data.data;
  const { error } = result.error as ErrorResponse;
  throw new Error(`${result.response.url}: ${result.response.status} ${error.code}: ${error.message}`);
}

async function signIn(): Promise<void> {
  const { email, password } = seed.owner;
  const session = unwrap(await cloud.POST('/v1/auth/sign-in', { body: { email, password } }));
  cloud.use({
    onRequest({ request }) {
      request.headers.set('Authorization', `Bearer ${session.token}`);
    },
  });
  ok('sign in', `${session.user.email}, until ${session.expiresAt}`);

  const organization = unwrap(
    await cloud.POST('/v1/organizations/{organizationId}/activate', { params: { path: { organizationId: seed.organizationId } } }),
  );
  expect(organization.active, 'the organization is not active');
  ok('activate organization', `${organization.name}, as its ${organization.role}`);
}

async function createProfile(): Promise<string> {
  const profile = unwrap(
    await cloud.POST('/v1/profiles', {
      body: {
        name: 'Checkout in German',
        browserVersion: seed.browserVersion,
        os: 'linux',
        locale: 'de-DE',
        timezoneId: 'Europe/Berlin',
        viewport: { width: 1280, height: 720 },
      },
    }),
  );
  expect(profile.os === 'linux' && profile.viewport?.width === 1280, 'the profile does not have the requested settings');
  expect(profile.proxy === null, 'the profile has a proxy');
  ok('create a profile', `${profile.name}, version ${profile.version}`);
  return profile.id;
}

/** Reserves a slot, as a worker does before it launches. */
async function authorize(profileId: string): Promise<string> {
  const body = { machineId: 'sdk', bootId: crypto.randomUUID(), sessionId: crypto.randomUUID() };
  const authorization = unwrap(await organizationCloud.POST('/v1/license/authorize', { body: { ...body, profileId } }));
  expect(authorization.allowed && authorization.profileConfig?.locale === 'de-DE', 'the launch is not allowed, or has other settings');
  ok('authorize', `allowed, ${authorization.current} of ${authorization.limit ?? 'unlimited'}`);

  // A refusal has status 402 and the envelope of a success.
  const refusal = await fullOrganizationCloud.POST('/v1/license/authorize', { body: { ...body, profileId: seed.full.profileId } });
  expect(refusal.response.status === 402, `the full organization got ${refusal.response.status}, not 402`);
  expect(refusal.error?.success === true, 'the refusal does not have the envelope of a success');
  const { allowed, reason, current, limit } = refusal.error.data;
  expect(!allowed && reason === 'concurrency_limit', 'the refusal has another reason');
  ok('authorize when full', `402, allowed ${allowed}, ${reason}, ${current} of ${limit}`);
  return body.sessionId;
}

async function launch(profileId: string): Promise<BrowserSession> {
  const launched = unwrap(await worker.POST('/sessions/profile', { body: { profileId, browser: { headless: true } } }));
  ok('launch', `${launched.status}, ${launched.start.warm ? 'warm' : 'cold'}`);

  const session = unwrap(await worker.GET('/sessions/{sessionId}', { params: { path: { sessionId: launched.id } } }));
  expect(session.launchId === launched.launchId && session.endReason === null, 'it is another session, or has ended');
  expect(session.webSocketDebuggerUrl?.startsWith('ws') === true, 'the session has no WebSocket URL');
  ok('read the session', `Chromium ${session.browserVersion}, debug port ${session.debugPort}`);
  return session;
}

/** Sends an invalid request, and reads the details of the error. */
async function launchInvalid(profileId: string): Promise<void> {
  const { error } = await worker.POST('/sessions/profile', {
    body: { profileId, spec: { browserVersion: seed.browserVersion }, browser: { timeoutMs: 5 } },
  });
  expect(error?.error.code === 'VALIDATION_ERROR', `the code is ${error?.error.code}, not VALIDATION_ERROR`);
  const codes = new Map<string, ErrorDetailCode>(error.error.details?.map((detail) => [detail.field, detail.code]));
  expect(codes.get('profileId') === 'INVALID_UNION', `profileId is ${codes.get('profileId')}, not INVALID_UNION`);
  expect(codes.get('browser.timeoutMs') === 'TOO_SMALL', `timeoutMs is ${codes.get('browser.timeoutMs')}, not TOO_SMALL`);
  const bound = error.error.details?.find((detail) => detail.code === 'TOO_SMALL')?.constraint?.min;
  expect(bound === 1000, `the bound is ${bound}, not 1000`);
  ok('read a VALIDATION_ERROR', [...codes].map(([field, code]) => `${field} ${code}`).join(', '));
}

async function pageThroughProfiles(): Promise<void> {
  const names: string[] = [];
  for (let page = 1, more = true; more; page++) {
    const list = unwrap(await cloud.GET('/v1/profiles', { params: { query: { page, limit: 1, sortBy: 'name', sortOrder: 'asc' } } }));
    names.push(...list.items.map((profile) => profile.name));
    more = list.pagination.hasNext;
    expect(more || names.length === list.pagination.total, `${names.length} of ${list.pagination.total} profiles were listed`);
  }
  expect(names.length > 1, 'there is only one page');
  ok('page through profiles', `${names.length} pages`);
}

async function end(sessionId: string, profileId: string, reservation: string): Promise<void> {
  const killed = unwrap(await worker.DELETE('/sessions/{sessionId}', { params: { path: { sessionId } } }));
  expect(killed.status === 'killed' && killed.endReason === 'killed', `the session is ${killed.status}`);
  ok('end the session', `${killed.status} at ${killed.endedAt}`);

  const report = unwrap(
    await organizationCloud.DELETE('/v1/profiles/{profileId}/sessions/{sessionId}', {
      params: { path: { profileId, sessionId: reservation } },
      body: { status: 'killed', endReason: 'client_close' },
    }),
  );
  expect(report.sessionId === reservation && report.status === 'killed', 'the report is of another session');
  ok('end the reservation', `${report.endReason}, never started`);

  // The worker reports the end of the session in the background.
  let deleted = await cloud.DELETE('/v1/profiles/{profileId}', { params: { path: { profileId } } });
  for (let attempt = 0; deleted.error?.error.code === 'RESOURCE_CONFLICT' && attempt < 100; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    deleted = await cloud.DELETE('/v1/profiles/{profileId}', { params: { path: { profileId } } });
  }
  unwrap(deleted);
  const { error } = await cloud.GET('/v1/profiles/{profileId}', { params: { path: { profileId } } });
  expect(error?.error.code === 'RESOURCE_NOT_FOUND', 'the profile is still there');
  ok('delete the profile', error.error.message);

  unwrap(await cloud.POST('/v1/auth/sign-out'));
  const after = await cloud.GET('/v1/auth/session');
  expect(after.error?.error.code === 'AUTHENTICATION_ERROR', 'the token still works');
  ok('sign out', after.error.error.message);
}

await signIn();
const profileId = await createProfile();
const reservation = await authorize(profileId);
const session = await launch(profileId);
await launchInvalid(profileId);
await pageThroughProfiles();
await end(session.id, profileId, reservation);
