// The pages of the dashboard: all of a signed-in user, and those without sign-in.
export const pages = ({ profile, session }) => [
  '/overview', '/sessions', `/sessions/${session}`, '/profiles', '/profiles/new', `/profiles/${profile}`, '/machines', '/connect',
  '/settings/keys', '/settings/secrets', '/settings/members', '/settings/service-accounts', '/settings/webhooks', '/settings/organization', '/settings/network', '/settings/builds', '/billing', '/audit-log', '/account',
  '/organizations/new', '/settings/no-such-section',
];

export const publicPages = ['/sign-in', '/sign-in/link', '/sign-up', '/forgot-password', '/account/verify-email#token=' + 'a'.repeat(43),
  '/account/reset-password#token=' + 'a'.repeat(43), '/account/accept-invitation#token=' + 'a'.repeat(43)];
