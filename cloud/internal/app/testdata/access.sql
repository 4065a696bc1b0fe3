-- An organization with all kinds of resources, and a second organization whose only
-- owner is the partner. With two organizations, a new session of the partner has no
-- active organization.
INSERT INTO users (id, email, name, password_hash, email_verified_at, created_at) VALUES
    ('{ownerId}',   'owner-{mark}@example.com',   'Olga {mark}',  '{passwordHash}', now(), now()),
    ('{partnerId}', 'partner-{mark}@example.com', 'Paul {mark}',  '{passwordHash}', now(), now()),
    ('{adminId}',   'admin-{mark}@example.com',   'Ada {mark}',   '{passwordHash}', now(), now()),
    ('{memberId}',  'member-{mark}@example.com',  'Max {mark}',   '{passwordHash}', now(), now()),
    ('{otherId}',   'other-{mark}@example.com',   'Otto {mark}',  '{passwordHash}', now(), now()),
    ('{formerId}',  'former-{mark}@example.com',  'Fay {mark}',   '{passwordHash}', now(), now());
INSERT INTO organizations (id, name, slug, created_at, created_by) VALUES
    ('{organizationId}', 'Engines {mark}', 'engines-{mark}', now(), '{ownerId}'),
    ('{besideId}', 'Beside {mark}', 'beside-{mark}', now(), '{partnerId}');
INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES
    ('{organizationId}', '{ownerId}',   'owner',  now()),
    ('{organizationId}', '{partnerId}', 'owner',  now()),
    ('{organizationId}', '{adminId}',   'admin',  now()),
    ('{organizationId}', '{memberId}',  'member', now()),
    ('{organizationId}', '{otherId}',   'member', now()),
    ('{organizationId}', '{formerId}',  'admin',  now()),
    ('{besideId}', '{partnerId}', 'owner', now());
INSERT INTO subscriptions (organization_id, plan_id, base_profile_limit, additional_profile_limit, base_member_limit,
        base_api_rpm_limit, base_api_rph_limit, price_cents, currency, interval, provider, period_anchor,
        current_period_start, current_period_end, created_at, updated_at)
    SELECT o.id, p.id, p.profile_limit, 10, p.member_limit, p.api_rpm_limit, p.api_rph_limit, p.price_cents, p.currency,
        p.interval, 'manual', now(), now(), now() + interval '30 days', now(), now()
    FROM plans p, organizations o WHERE p.slug = 'team' AND o.id IN ('{organizationId}', '{besideId}');
INSERT INTO subscription_add_ons (id, organization_id, slug, name, limit_name, amount, quantity, price_cents, created_at) VALUES
    ('{addOnId}', '{organizationId}', 'profiles', 'Ten profiles', 'profileLimit', 10, 1, 1900, now());
INSERT INTO invoices (id, organization_id, number, status, currency, subtotal_cents, total_cents, amount_due_cents, lines,
        period_start, period_end, provider, created_at) VALUES
    ('{invoiceId}', '{organizationId}', '{mark}-0001', 'paid', 'usd', 9900, 9900, 9900, '[]', now(), now(), 'manual', now());
INSERT INTO invitations (id, organization_id, email, role, token_hash, invited_by, created_at, expires_at) VALUES
    ('{invitationId}', '{organizationId}', 'guest-{mark}@example.com', 'member', sha256('{mark}'), '{ownerId}', now(), now() + interval '7 days');
INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_by, created_at, expires_at, revoked_at) VALUES
    (gen_random_uuid(), '{organizationId}', 'fleet {mark}',   sha256('{key}'),        'svc_aaaa', 'aaaa', '{ownerId}', now(), NULL, NULL),
    (gen_random_uuid(), '{organizationId}', 'revoked {mark}', sha256('{revokedKey}'), 'svc_bbbb', 'bbbb', '{ownerId}', now(), NULL, NULL),
    (gen_random_uuid(), '{organizationId}', 'expired {mark}', sha256('{expiredKey}'), 'svc_cccc', 'cccc', '{ownerId}', now(), now(), NULL),
    ('{keyId}',         '{organizationId}', 'spare {mark}',   sha256('{keyId}'),      'svc_dddd', 'dddd', '{ownerId}', now(), NULL, NULL);
-- The names are the ends of the tokens. The last use is in the future, so that uses write nothing.
INSERT INTO access_tokens (id, organization_id, user_id, name, scopes, token_hash, last_four, created_at, expires_at, last_used_at)
    SELECT id::uuid, '{organizationId}'::uuid, user_id::uuid, name, scopes::text[], sha256(convert_to('{token}' || name, 'UTF8')), 'aaaa', now(),
        now() + lifetime::interval, now() + interval '1 hour'
    FROM (SELECT '{profiles:read,profiles:write,sessions:read,keys:write,members:write,billing:read,webhooks:read,webhooks:write}' AS every) AS s,
        LATERAL (VALUES
            ('{tokenId}',              '{ownerId}',  'all',     every, '1 day'),
            (gen_random_uuid()::text,  '{ownerId}',  'expired', every, '0'),
            (gen_random_uuid()::text,  '{adminId}',  'admin',   every, '1 day'),
            (gen_random_uuid()::text,  '{memberId}', 'member',  every, '1 day'),
            (gen_random_uuid()::text,  '{formerId}', 'former',  every, '1 day')
        ) AS t (id, user_id, name, scopes, lifetime)
    UNION ALL
    SELECT gen_random_uuid(), '{organizationId}'::uuid, '{ownerId}'::uuid, scope, ARRAY[scope], sha256(convert_to('{token}' || scope, 'UTF8')), 'bbbb', now(),
        now() + interval '1 day', now() + interval '1 hour'
    FROM unnest('{profiles:read,profiles:write,sessions:read,keys:write,members:write,billing:read,webhooks:read,webhooks:write}'::text[]) AS scope;
INSERT INTO service_accounts (id, organization_id, name, scopes, created_by, created_at) VALUES
    ('{serviceAccountId}', '{organizationId}', 'robot-{mark}',
        '{profiles:read,profiles:write,sessions:read,keys:write,members:write,billing:read,webhooks:read,webhooks:write}', '{ownerId}', now());
INSERT INTO access_tokens (id, organization_id, service_account_id, name, scopes, token_hash, last_four, created_at, expires_at, last_used_at)
    SELECT id, '{organizationId}', '{serviceAccountId}', name, scopes, sha256(convert_to('{token}' || name, 'UTF8')), 'cccc', now(),
        now() + interval '1 day', now() + interval '1 hour'
    FROM (SELECT gen_random_uuid() AS id, 'service ' || scope AS name, ARRAY[scope] AS scopes
            FROM unnest('{profiles:read,profiles:write,sessions:read,keys:write,members:write,billing:read,webhooks:read,webhooks:write}'::text[]) AS scope
        UNION ALL SELECT '{accountTokenId}', 'service all', scopes FROM service_accounts WHERE id = '{serviceAccountId}') AS t;
INSERT INTO profiles (id, organization_id, name, browser_version, os, created_by, created_at, updated_at) VALUES
    ('{profileId}', '{organizationId}', 'Checkout {mark}', 156, 'linux', '{ownerId}', now(), now()),
    ('{idleProfileId}', '{organizationId}', 'Idle {mark}', 156, 'linux', '{ownerId}', now(), now());
INSERT INTO secrets (id, organization_id, name, username, origins, created_at, updated_at) VALUES
    ('{secretId}', '{organizationId}', 'login-{mark}', 'robot-{mark}', '{https://accounts.example.com}', now(), now());
INSERT INTO webhook_endpoints (id, organization_id, url, secret, enabled, created_at, updated_at) VALUES
    ('{endpointId}', '{organizationId}', 'https://127.0.0.1:1/{mark}', '\x00', true, now(), now());
INSERT INTO events (id, organization_id, position, type, data, created_at) VALUES
    ('{eventId}', '{organizationId}', nextval('event_positions'), 'key.revoked', '{"keyId": "{keyId}"}', now());
INSERT INTO webhook_deliveries (id, organization_id, endpoint_id, event_id, position, type, state, due_at, created_at) VALUES
    ('{deliveryId}', '{organizationId}', '{endpointId}', '{eventId}', 1, 'key.revoked', 'failed', now(), now());
INSERT INTO license_org (organization_id, max_slots, in_use) VALUES ('{organizationId}', 60, 1), ('{besideId}', 50, 0);
INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at) VALUES
    ('{organizationId}', 'host-{mark}', '{bootId}', 1, now());
INSERT INTO license_machine_info (organization_id, machine_id, key_id, host_name, version, draining, changed_at) VALUES
    ('{organizationId}', 'host-{mark}', '{keyId}', 'browsers-{mark}', '1.0.0', false, now());
INSERT INTO license_slots (id, organization_id, profile_id, session_id, machine_id, boot_id, state, reserved_at, lease_until) VALUES
    ('{slotId}', '{organizationId}', '{profileId}', '{sessionId}', 'machine-{mark}', '{bootId}', 'reserved', now(), now() + interval '2 minutes');
INSERT INTO profile_data (profile_id, organization_id, current_version) VALUES ('{profileId}', '{organizationId}', '{versionId}');
INSERT INTO profile_data_versions (id, organization_id, profile_id, session_id, machine_id, size_bytes, sent_bytes, created_at) VALUES
    ('{versionId}', '{organizationId}', '{profileId}', '{pastId}', 'machine-{mark}', 7, 5, now());
INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version, status,
        end_reason, started_at, ended_at) VALUES
    ('{pastId}', '{organizationId}', '{profileId}', 'Checkout {mark}', 'machine-{mark}', '{pastId}', 156, 'killed', 'killed',
     now() - interval '2 minutes', now());
INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, actor_id, actor_email, created_at) VALUES
    (gen_random_uuid(), '{organizationId}', 'profile.created', '{profileId}', 'user', '{ownerId}', 'owner-{mark}@example.com', now());
