-- The schema of the cloud's database.
--
-- Sections: accounts, plans and billing, profiles, license, activity, browser
-- releases, operations; then functions, triggers, roles, row-level security.
-- Types and functions that a table needs come before that table.
--
-- There is no Down: to go back to an older schema, restore a backup.

-- +goose Up

-- Accounts: users, organizations, sign-in, keys ------------------------------

CREATE TABLE users (
    id                   uuid        PRIMARY KEY,
    email                text        NOT NULL CONSTRAINT users_email_lower CHECK (email = lower(email COLLATE "C")),
    name                 text        NOT NULL,
    password_hash        text,
    credential_version   integer     NOT NULL DEFAULT 0,
    email_verified_at    timestamptz,
    disabled_at          timestamptz,
    last_organization_id uuid,
    created_at           timestamptz NOT NULL,
    CONSTRAINT users_email_key UNIQUE (email)
);
COMMENT ON TABLE users IS 'People who sign in to the dashboard.';
COMMENT ON COLUMN users.email IS 'Always in lower case.';
COMMENT ON COLUMN users.password_hash IS 'Null for an account that signs in by single sign-on only.';
COMMENT ON COLUMN users.credential_version IS 'Incremented when the credentials change. A sign-in that started with the previous version fails.';
COMMENT ON COLUMN users.email_verified_at IS 'Null until the address is verified.';
COMMENT ON COLUMN users.disabled_at IS 'When an operator disabled the account, or null. A disabled account has no sessions and cannot sign in.';
COMMENT ON COLUMN users.last_organization_id IS 'The organization that becomes active when the user signs in.';

CREATE TABLE organizations (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    slug       text        NOT NULL,
    created_at timestamptz NOT NULL,
    created_by uuid        REFERENCES users (id) ON DELETE SET NULL,
    CONSTRAINT organizations_slug_key UNIQUE (slug)
);
COMMENT ON TABLE organizations IS 'The tenants. Everything that belongs to an organization is deleted with it, except audit_events and deleted_organizations.';

-- To count how many organizations a user created.
CREATE INDEX organizations_created_by ON organizations (created_by) WHERE created_by IS NOT NULL;

ALTER TABLE users
    ADD CONSTRAINT users_last_organization_id_fkey
    FOREIGN KEY (last_organization_id) REFERENCES organizations (id) ON DELETE SET NULL;

CREATE TABLE memberships (
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_id         uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role            text        NOT NULL CONSTRAINT memberships_role CHECK (role IN ('owner', 'admin', 'member')),
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_user_id_idx ON memberships (user_id);
COMMENT ON TABLE memberships IS 'The users of each organization and their roles.';

CREATE TABLE invitations (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    email           text        NOT NULL CONSTRAINT invitations_email_lower CHECK (email = lower(email COLLATE "C")),
    role            text        NOT NULL CONSTRAINT invitations_role CHECK (role IN ('owner', 'admin', 'member')),
    token_hash      bytea       NOT NULL CONSTRAINT invitations_token_hash_length CHECK (length(token_hash) = 32),
    invited_by      uuid        REFERENCES users (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    outcome         text        CONSTRAINT invitations_outcome CHECK (outcome IN ('accepted', 'revoked', 'expired')),
    ended_at        timestamptz,
    CONSTRAINT invitations_ended CHECK ((outcome IS NULL) = (ended_at IS NULL)),
    CONSTRAINT invitations_token_hash_key UNIQUE (token_hash)
);
COMMENT ON TABLE invitations IS 'Invitations to organizations. Open invitations count towards the member limit.';
COMMENT ON COLUMN invitations.email IS 'Always in lower case.';
COMMENT ON COLUMN invitations.token_hash IS 'SHA-256 of the mailed token. The token itself is never stored.';
COMMENT ON COLUMN invitations.outcome IS 'Null while the invitation is open. An invitation past expires_at stays open here until its address is invited again; then it becomes ''expired''.';

-- At most one open invitation per organization and address.
CREATE UNIQUE INDEX invitations_open ON invitations (organization_id, email) WHERE outcome IS NULL;
CREATE INDEX invitations_invited_by ON invitations (invited_by) WHERE invited_by IS NOT NULL;

CREATE TABLE user_identities (
    issuer     text        NOT NULL,
    subject    text        NOT NULL,
    user_id    uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX user_identities_user_id_idx ON user_identities (user_id);
COMMENT ON TABLE user_identities IS 'The identities of users at OpenID providers.';

CREATE TABLE auth_sessions (
    token_hash   text        PRIMARY KEY,
    id           uuid        NOT NULL,
    user_id      uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    data         bytea       NOT NULL,
    expiry       timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    ip_address   text        NOT NULL,
    user_agent   text        NOT NULL,
    CONSTRAINT auth_sessions_id_key UNIQUE (id)
);
CREATE INDEX auth_sessions_user_id_idx ON auth_sessions (user_id);
CREATE INDEX auth_sessions_expiry_idx ON auth_sessions (expiry);
COMMENT ON TABLE auth_sessions IS 'Dashboard sessions.';
COMMENT ON COLUMN auth_sessions.token_hash IS 'SHA-256 of the session token. The token itself is never stored.';
COMMENT ON COLUMN auth_sessions.id IS 'The public id, by which a user lists and ends sessions.';

CREATE TABLE auth_tokens (
    token_hash bytea       PRIMARY KEY CONSTRAINT auth_tokens_token_hash_length CHECK (length(token_hash) = 32),
    user_id    uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    purpose    text        NOT NULL CONSTRAINT auth_tokens_purpose CHECK (purpose IN ('verifyEmail', 'resetPassword', 'signIn')),
    mailed     boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX auth_tokens_user_id_idx ON auth_tokens (user_id);
CREATE INDEX auth_tokens_expires_at_idx ON auth_tokens (expires_at);
COMMENT ON TABLE auth_tokens IS 'Single-use tokens that verify an address, reset a password or sign in.';
COMMENT ON COLUMN auth_tokens.token_hash IS 'SHA-256 of the token. The token itself is never stored.';
COMMENT ON COLUMN auth_tokens.user_id IS 'The foreign key is checked at commit: a request for an unknown account does the same work, then rolls back, so that its duration reveals nothing.';
COMMENT ON COLUMN auth_tokens.mailed IS 'True if the token was sent to the mailbox only, so that its use verifies the address. False for a link that an operator or the user created.';

CREATE TABLE auth_attempts (
    kind          text        NOT NULL,
    subject       bytea       NOT NULL,
    attempts      integer     NOT NULL,
    blocked_until timestamptz NOT NULL,
    forget_at     timestamptz NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX auth_attempts_forget_at_idx ON auth_attempts (forget_at);
COMMENT ON TABLE auth_attempts IS 'Counts sign-in and mail requests, to slow down guessing.';
COMMENT ON COLUMN auth_attempts.subject IS 'SHA-256 of an e-mail address (of an account or not), or of a client''s IP address.';
COMMENT ON COLUMN auth_attempts.forget_at IS 'When the row may be deleted.';

CREATE TABLE api_keys (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            text        NOT NULL,
    key_hash        bytea       NOT NULL CONSTRAINT api_keys_key_hash_length CHECK (length(key_hash) = 32),
    prefix          text        NOT NULL,
    last_four       text        NOT NULL,
    created_by      uuid        REFERENCES users (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    expires_at      timestamptz,
    revoked_at      timestamptz,
    CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash)
);
CREATE INDEX api_keys_organization_id_idx ON api_keys (organization_id) WHERE revoked_at IS NULL;
COMMENT ON TABLE api_keys IS 'Organization keys. api_key_valid decides whether a key is accepted.';
COMMENT ON COLUMN api_keys.key_hash IS 'SHA-256 of the key. The key itself is never stored.';
COMMENT ON COLUMN api_keys.prefix IS 'The first characters of the key, for display.';
COMMENT ON COLUMN api_keys.expires_at IS 'Null: the key does not expire.';

CREATE TABLE api_usage (
    organization_id uuid        PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    minute          timestamptz NOT NULL,
    minute_requests bigint      NOT NULL CHECK (minute_requests >= 0),
    hour            timestamptz NOT NULL,
    hour_requests   bigint      NOT NULL CHECK (hour_requests >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE api_usage IS 'API requests per organization in the current minute and hour, added up by all replicas. Shown next to the limits; no request is refused because of it (specification 8).';
COMMENT ON COLUMN api_usage.minute IS 'The start of the minute that minute_requests counts.';
COMMENT ON COLUMN api_usage.hour IS 'The start of the hour that hour_requests counts.';

-- Plans and billing ----------------------------------------------------------

CREATE TABLE plans (
    id            uuid    PRIMARY KEY,
    slug          text    NOT NULL,
    name          text    NOT NULL,
    price_cents   integer NOT NULL CHECK (price_cents >= 0),
    currency      text    NOT NULL CHECK (currency ~ '^[a-z]{3}$'),
    interval      text    NOT NULL CHECK (interval IN ('month', 'year')),
    profile_limit integer CHECK (profile_limit >= 0),
    member_limit  integer CHECK (member_limit >= 0),
    api_rpm_limit integer CHECK (api_rpm_limit >= 0),
    api_rph_limit integer CHECK (api_rph_limit >= 0),
    add_ons       jsonb   NOT NULL DEFAULT '[]',
    position      integer NOT NULL,
    CONSTRAINT plans_slug_key UNIQUE (slug)
);
COMMENT ON TABLE plans IS 'The plans on offer. A limit that is null means unlimited.';
COMMENT ON COLUMN plans.add_ons IS 'The add-ons that can be bought with this plan.';
COMMENT ON COLUMN plans.position IS 'The order in the list of plans.';

INSERT INTO plans (id, slug, name, price_cents, currency, interval,
                   profile_limit, member_limit, api_rpm_limit, api_rph_limit, position)
VALUES
    ('019a5f00-0000-7000-8000-000000000001', 'free',       'Free',           0, 'usd', 'month',    3,    1,   60,   1000, 1),
    ('019a5f00-0000-7000-8000-000000000002', 'starter',    'Starter',     2900, 'usd', 'month',   10,    3,  120,   5000, 2),
    ('019a5f00-0000-7000-8000-000000000003', 'team',       'Team',        9900, 'usd', 'month',   50,   10,  600,  20000, 3),
    ('019a5f00-0000-7000-8000-000000000004', 'scale',      'Scale',      39900, 'usd', 'month',  250,   50, 3000, 100000, 4),
    ('019a5f00-0000-7000-8000-000000000005', 'enterprise', 'Enterprise', 99900, 'usd', 'month', NULL, NULL, NULL,   NULL, 5);

UPDATE plans
SET add_ons = '[
    {"slug": "profiles", "name": "Ten profiles",                "limit": "profileLimit", "amount": 10,    "priceCents": 1900},
    {"slug": "members",  "name": "Five members",                "limit": "memberLimit",  "amount": 5,     "priceCents": 900},
    {"slug": "api-rpm",  "name": "600 API requests a minute",   "limit": "apiRpmLimit",  "amount": 600,   "priceCents": 500},
    {"slug": "api-rph",  "name": "20,000 API requests an hour", "limit": "apiRphLimit",  "amount": 20000, "priceCents": 500}]'
WHERE slug IN ('starter', 'team', 'scale');

CREATE TABLE subscriptions (
    organization_id          uuid        PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    plan_id                  uuid        NOT NULL REFERENCES plans (id),
    status                   text        NOT NULL DEFAULT 'active'
        CONSTRAINT subscriptions_status CHECK (status IN ('active', 'past_due', 'suspended', 'canceled')),
    operator_suspended_at    timestamptz,

    price_cents              integer     NOT NULL DEFAULT 0 CHECK (price_cents >= 0),
    currency                 text        NOT NULL DEFAULT 'usd' CHECK (currency ~ '^[a-z]{3}$'),
    interval                 text        NOT NULL DEFAULT 'month' CHECK (interval IN ('month', 'year')),
    period_anchor            timestamptz,
    current_period_start     timestamptz,
    current_period_end       timestamptz,
    cancel_at_period_end     boolean     NOT NULL DEFAULT false,
    credit_cents             bigint      NOT NULL DEFAULT 0 CHECK (credit_cents >= 0),
    last_invoice             integer     NOT NULL DEFAULT 0,
    provider                 text        CHECK (provider IN ('manual', 'stripe')),
    provider_customer_id     text,
    provider_subscription_id text,
    provider_checkout_id     text,

    base_profile_limit       integer,
    additional_profile_limit integer     NOT NULL DEFAULT 0,
    suspended_profile_limit  integer,
    effective_profile_limit  integer     GENERATED ALWAYS AS (
        CASE WHEN operator_suspended_at IS NOT NULL THEN 0
             WHEN status = 'suspended' THEN suspended_profile_limit
             ELSE base_profile_limit + additional_profile_limit END) STORED,
    base_member_limit        integer,
    additional_member_limit  integer     NOT NULL DEFAULT 0,
    suspended_member_limit   integer,
    effective_member_limit   integer     GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_member_limit ELSE base_member_limit + additional_member_limit END) STORED,
    base_api_rpm_limit       integer,
    additional_api_rpm_limit integer     NOT NULL DEFAULT 0,
    suspended_api_rpm_limit  integer,
    effective_api_rpm_limit  integer     GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_api_rpm_limit ELSE base_api_rpm_limit + additional_api_rpm_limit END) STORED,
    base_api_rph_limit       integer,
    additional_api_rph_limit integer     NOT NULL DEFAULT 0,
    suspended_api_rph_limit  integer,
    effective_api_rph_limit  integer     GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_api_rph_limit ELSE base_api_rph_limit + additional_api_rph_limit END) STORED,

    revision                 bigint      NOT NULL DEFAULT 0,
    changing_until           timestamptz,
    created_at               timestamptz NOT NULL,
    updated_at               timestamptz NOT NULL,
    CONSTRAINT subscriptions_period CHECK (num_nulls(provider, period_anchor, current_period_start, current_period_end) IN (0, 4)),
    CONSTRAINT subscriptions_provider_subscription_id_key UNIQUE (provider_subscription_id)
);
COMMENT ON TABLE subscriptions IS 'The plan of each organization. Price and base limits are copied from the plan when it is bought, so a later change of the plan does not affect them. A limit that is null means unlimited.';
COMMENT ON COLUMN subscriptions.status IS '''suspended'' means unpaid: the suspended_* limits apply until it is paid.';
COMMENT ON COLUMN subscriptions.operator_suspended_at IS 'When an operator suspended the organization, or null. A suspended organization launches nothing, whatever it pays.';
COMMENT ON COLUMN subscriptions.period_anchor IS 'The start of the first period. Later periods start on the same day of the month, or on the last day of a shorter month.';
COMMENT ON COLUMN subscriptions.current_period_end IS 'Null for a plan that costs nothing: it has no billing period.';
COMMENT ON COLUMN subscriptions.credit_cents IS 'Manual billing: the remaining credit, which the next invoices use up.';
COMMENT ON COLUMN subscriptions.last_invoice IS 'Manual billing: the number of the last invoice.';
COMMENT ON COLUMN subscriptions.provider_checkout_id IS 'The last checkout page. There is never more than one open.';
COMMENT ON COLUMN subscriptions.effective_profile_limit IS 'The profile limit that is enforced, derived from the columns above. Null means unlimited. The other effective_* columns likewise.';
COMMENT ON COLUMN subscriptions.suspended_profile_limit IS 'The limit while the subscription is suspended: that of the free plan at the time.';
COMMENT ON COLUMN subscriptions.revision IS 'Incremented by each change. A writer that read another revision must read again.';
COMMENT ON COLUMN subscriptions.changing_until IS 'A change at the payment provider is in progress. No other change may begin before this time.';

CREATE INDEX subscriptions_due_idx ON subscriptions (current_period_end) WHERE current_period_end IS NOT NULL;
CREATE INDEX subscriptions_provider_checkout_id_idx ON subscriptions (provider_checkout_id) WHERE provider_checkout_id IS NOT NULL;

CREATE TABLE subscription_add_ons (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES subscriptions (organization_id) ON DELETE CASCADE,
    slug            text        NOT NULL,
    name            text        NOT NULL,
    limit_name      text        NOT NULL CHECK (limit_name IN ('profileLimit', 'memberLimit', 'apiRpmLimit', 'apiRphLimit')),
    amount          integer     NOT NULL CHECK (amount > 0),
    quantity        integer     NOT NULL CHECK (quantity > 0),
    price_cents     integer     NOT NULL CHECK (price_cents >= 0),
    created_at      timestamptz NOT NULL,
    CONSTRAINT subscription_add_ons_slug UNIQUE (organization_id, slug)
);
COMMENT ON TABLE subscription_add_ons IS 'The add-ons of each subscription, on the terms at which they were bought.';
COMMENT ON COLUMN subscription_add_ons.amount IS 'How much one unit adds to the limit.';

CREATE TABLE invoices (
    id                  uuid        PRIMARY KEY,
    organization_id     uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    number              text        NOT NULL,
    status              text        NOT NULL CHECK (status IN ('open', 'paid', 'uncollectible', 'void')),
    currency            text        NOT NULL,
    subtotal_cents      bigint      NOT NULL,
    total_cents         bigint      NOT NULL,
    amount_due_cents    bigint      NOT NULL CHECK (amount_due_cents >= 0),
    lines               jsonb       NOT NULL,
    period_start        timestamptz NOT NULL,
    period_end          timestamptz NOT NULL,
    hosted_url          text,
    provider            text        NOT NULL,
    provider_invoice_id text,
    created_at          timestamptz NOT NULL,
    CONSTRAINT invoices_number UNIQUE (organization_id, provider, number),
    CONSTRAINT invoices_provider_invoice_id_key UNIQUE (provider_invoice_id)
);
CREATE INDEX invoices_list_idx ON invoices (organization_id, created_at, id);
COMMENT ON TABLE invoices IS 'Invoices, written by manual billing or copied from the payment provider.';

CREATE TABLE payment_events (
    id          text        PRIMARY KEY,
    kind        text        NOT NULL,
    received_at timestamptz NOT NULL
);
CREATE INDEX payment_events_received_at_idx ON payment_events (received_at);
COMMENT ON TABLE payment_events IS 'The payment provider''s events that were processed, so that an event sent twice counts once.';

CREATE TABLE deleted_organizations (
    organization_id uuid        PRIMARY KEY,
    deleted_at      timestamptz NOT NULL,
    next_check_at   timestamptz NOT NULL
);
COMMENT ON TABLE deleted_organizations IS 'Deleted organizations that a payment provider might still bill. A row is deleted when the provider has no subscription of the organization left and no checkout session can create one.';
COMMENT ON COLUMN deleted_organizations.organization_id IS 'No foreign key: the organization does not exist any more.';
COMMENT ON COLUMN deleted_organizations.next_check_at IS 'When to ask the provider next. During a check: when another replica may check.';

CREATE INDEX deleted_organizations_next_check_at_idx ON deleted_organizations (next_check_at);

-- Profiles -------------------------------------------------------------------

CREATE TABLE profiles (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            text        NOT NULL,
    notes           text        NOT NULL DEFAULT '',
    tags            text[]      NOT NULL DEFAULT '{}',
    browser_version integer     CHECK (browser_version > 0),
    os              text,
    settings        jsonb       NOT NULL DEFAULT '{}',
    proxy_secret    bytea,
    persist         boolean     NOT NULL DEFAULT false,
    metadata        jsonb       NOT NULL DEFAULT '{}',
    version         bigint      NOT NULL DEFAULT 1,
    ephemeral       boolean     NOT NULL DEFAULT false,
    given_up_at     timestamptz,
    last_used_at    timestamptz,
    created_by      uuid        REFERENCES users (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CONSTRAINT profiles_version_known CHECK (ephemeral OR browser_version IS NOT NULL),
    CONSTRAINT profiles_given_up CHECK (ephemeral OR given_up_at IS NULL)
);
COMMENT ON TABLE profiles IS 'Browser profiles: the identity that a browser presents and the settings it is launched with.';
COMMENT ON COLUMN profiles.browser_version IS 'The major version. Null only for an ephemeral profile whose worker has not yet reported the version it chose.';
COMMENT ON COLUMN profiles.settings IS 'All other settings, under their names in the API. Never contains a secret.';
COMMENT ON COLUMN profiles.proxy_secret IS 'The proxy password, encrypted with this organization and profile as associated data.';
COMMENT ON COLUMN profiles.version IS 'Incremented by each update; served as the ETag.';
COMMENT ON COLUMN profiles.ephemeral IS 'Created for one launch and deleted with it. Not listed, but counted towards the profile limit unless given_up_at is set.';
COMMENT ON COLUMN profiles.given_up_at IS 'When the slot of this ephemeral profile''s launch was reclaimed. The profile is kept, uncounted, in case the session turns out to be running.';

-- The list of profiles, and the count of all profiles of an organization.
CREATE INDEX profiles_list ON profiles (organization_id, created_at, id) WHERE NOT ephemeral;
CREATE INDEX profiles_ephemeral ON profiles (organization_id) WHERE ephemeral;
CREATE INDEX profiles_tags ON profiles USING gin (tags) WHERE NOT ephemeral;
CREATE INDEX profiles_created_by ON profiles (created_by) WHERE created_by IS NOT NULL;

-- License: slots and the counter of each organization ------------------------
--
-- A transaction that starts or ends slots locks in this order: machine, slots,
-- counter (license_org).
--
-- PostgreSQL parses the text of a table's CHECK constraints again for every
-- statement that writes to the table. On license_org and license_slots that was
-- a quarter of the cost of granting or ending a slot. Therefore enum types and
-- a domain restrict single columns, at no cost per statement, and only two
-- CHECK constraints remain.

CREATE DOMAIN license_limit AS integer CONSTRAINT license_limit_not_negative CHECK (VALUE >= 0);
COMMENT ON DOMAIN license_limit IS 'A limit on concurrent sessions. Null means unlimited.';
CREATE TYPE license_slot_state AS ENUM ('reserved', 'running', 'released');
COMMENT ON TYPE license_slot_state IS 'reserved: authorized, not started yet. running: the browser started. released: ended, no longer counted.';
CREATE TYPE license_release_reason AS ENUM ('ended', 'omitted', 'lapsed');
COMMENT ON TYPE license_release_reason IS 'ended: the worker reported the end. omitted: the worker''s heartbeat no longer listed the session. lapsed: the lease expired.';
CREATE TYPE license_end_status AS ENUM ('exited', 'killed');
COMMENT ON TYPE license_end_status IS 'exited: the browser ended by itself. killed: the worker ended it.';

CREATE TABLE license_org (
    organization_id uuid          PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    max_slots       license_limit,
    in_use          integer       NOT NULL DEFAULT 0 CHECK (in_use >= 0),
    queued          integer       NOT NULL DEFAULT 0
) WITH (fillfactor = 10); -- the most updated rows: leaves space for many row versions on the same page
COMMENT ON TABLE license_org IS 'The counter of live slots per organization. It is updated last in each transaction that starts or ends slots.';
COMMENT ON COLUMN license_org.max_slots IS 'The concurrency limit. Null means unlimited.';
COMMENT ON COLUMN license_org.in_use IS 'The number of rows in license_slots that are not released. An auditor compares both and repairs a difference.';
COMMENT ON COLUMN license_org.queued IS 'The number of rows in license_queue. A launch that does not wait leaves that many slots free. The auditor repairs this counter too.';

CREATE TABLE license_queue (
    organization_id uuid        NOT NULL REFERENCES license_org (organization_id) ON DELETE CASCADE,
    session_id      uuid        NOT NULL,
    place           bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    call_id         uuid        NOT NULL,
    lease_until     timestamptz NOT NULL,
    PRIMARY KEY (organization_id, session_id)
) WITH (fillfactor = 50);
CREATE INDEX license_queue_place ON license_queue (organization_id, place);
COMMENT ON TABLE license_queue IS 'The launches that wait for a free slot. Rows are inserted and deleted while the row of license_org is locked.';
COMMENT ON COLUMN license_queue.place IS 'The order of arrival within an organization.';
COMMENT ON COLUMN license_queue.call_id IS 'The latest request of the session. Only that request can take the slot.';
COMMENT ON COLUMN license_queue.lease_until IS 'The replica that holds the request extends it. When it is over, the place is lost.';

CREATE TABLE license_machines (
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    machine_id      text        NOT NULL,
    boot_id         uuid        NOT NULL,
    past_boots      uuid[]      NOT NULL DEFAULT '{}',
    seq             bigint      NOT NULL,
    heartbeat_at    timestamptz NOT NULL,
    previous_at     timestamptz,
    first_seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (organization_id, machine_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE license_machines IS 'The latest report of each worker host.';
COMMENT ON COLUMN license_machines.boot_id IS 'The current run of the worker.';
COMMENT ON COLUMN license_machines.past_boots IS 'The runs that the current one replaced, the latest last.';
COMMENT ON COLUMN license_machines.seq IS 'The sequence number of the last report of this boot. Reports with a lower number are out of date.';
COMMENT ON COLUMN license_machines.heartbeat_at IS 'When this boot last reported, by heartbeat or by a start.';
COMMENT ON COLUMN license_machines.previous_at IS 'When the machine reported before heartbeat_at.';
COMMENT ON COLUMN license_machines.first_seen_at IS 'When the machine reported for the first time.';

CREATE TABLE license_machine_info (
    organization_id uuid        NOT NULL,
    machine_id      text        NOT NULL,
    key_id          uuid        NOT NULL,
    host_name       text        NOT NULL,
    version         text        NOT NULL,
    max_sessions    integer     CHECK (max_sessions > 0),
    draining        boolean     NOT NULL,
    changed_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, machine_id),
    FOREIGN KEY (organization_id, machine_id) REFERENCES license_machines (organization_id, machine_id) ON DELETE CASCADE
);
COMMENT ON TABLE license_machine_info IS 'What the worker of a machine reported about itself. It is apart from license_machines because each heartbeat copies the row of that table.';
COMMENT ON COLUMN license_machine_info.key_id IS 'The organization key of the worker. No foreign key, as in license_slots.';
COMMENT ON COLUMN license_machine_info.max_sessions IS 'Null means no limit.';

CREATE TABLE license_superseded_boots (
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    machine_id      text        NOT NULL,
    boot_id         uuid        NOT NULL,
    seq             bigint      NOT NULL,
    since           timestamptz NOT NULL,
    heartbeat_at    timestamptz NOT NULL,
    alive_since     timestamptz,
    PRIMARY KEY (organization_id, machine_id, boot_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE license_superseded_boots IS 'Boots that still report after another boot replaced them on their machine.';
COMMENT ON COLUMN license_superseded_boots.since IS 'When the boot first reported after it was replaced, without a long pause since.';
COMMENT ON COLUMN license_superseded_boots.alive_since IS 'When the boot proved to be running, which means that two workers share the machine id. Null if not proved.';

CREATE TABLE license_slots (
    id                 uuid               PRIMARY KEY,
    organization_id    uuid               NOT NULL,
    profile_id         uuid,
    key_id             uuid,
    session_id         uuid               NOT NULL,
    machine_id         text,
    boot_id            uuid,
    seq                bigint             NOT NULL DEFAULT 0,
    state              license_slot_state NOT NULL,
    launch_id          uuid,
    browser_version    integer,
    reserved_at        timestamptz        NOT NULL,
    started_at         timestamptz,
    heartbeat_at       timestamptz,
    lease_until        timestamptz        NOT NULL,
    released_at        timestamptz,
    release_reason     license_release_reason,
    ended_at           timestamptz,
    end_status         license_end_status,
    end_reason         text,
    first_heartbeat_at timestamptz,
    CONSTRAINT license_slots_session UNIQUE (organization_id, session_id),
    CONSTRAINT license_slots_released CHECK ((state = 'released') = (released_at IS NOT NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE license_slots IS 'One row per slot, from reservation to end, kept for a while after the end. A slot without a machine is a tombstone: the end of a session that was never reserved, kept so that a late start is refused.';
COMMENT ON COLUMN license_slots.organization_id IS 'No foreign key: checking it was a third of the cost of a grant. A slot is created while its license_org row is locked, and the trigger cascade_delete_slots deletes slots with that row.';
COMMENT ON COLUMN license_slots.seq IS 'The sequence number of the worker''s last report about this slot.';
COMMENT ON COLUMN license_slots.started_at IS 'By the worker''s clock. For display only.';
COMMENT ON COLUMN license_slots.ended_at IS 'By the worker''s clock. For display only.';
COMMENT ON COLUMN license_slots.lease_until IS 'When the slot may be reclaimed (specification 3.2): 2 minutes after the reservation; 6 hours after the start until the first heartbeat; 5 minutes after each heartbeat.';

-- The only index on live slots. Its condition is on released_at, not on state,
-- so that a start changes no index. No index contains lease_until or
-- heartbeat_at, so that a heartbeat changes no index either.
CREATE INDEX license_slots_live ON license_slots (organization_id, machine_id) WHERE released_at IS NULL;

-- For the usage over time.
CREATE INDEX license_slots_released ON license_slots (organization_id, released_at) WHERE released_at IS NOT NULL;

-- To limit the number of tombstones per organization.
CREATE INDEX license_slots_tombstones ON license_slots (organization_id, id) WHERE machine_id IS NULL;

-- +goose StatementBegin
CREATE FUNCTION license_event_id(happened timestamptz) RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_byte(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM happened) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        6, 112 + floor(random() * 16)::int), 'hex')::uuid
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION license_event_id(timestamptz) IS 'Returns a random UUID of version 7 for the given time, so that the ids of events sort by time.';

CREATE TABLE license_events (
    id              uuid        PRIMARY KEY DEFAULT license_event_id(clock_timestamp()),
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    kind            text        NOT NULL CHECK (kind IN ('refused', 'lapsed', 'omitted', 'adopted', 'limitChanged',
                                                         'machineDuplicated', 'machineAlone', 'counterRepaired')),
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    count           integer     NOT NULL DEFAULT 1 CHECK (count > 0),
    reason          text,
    machine_id      text,
    boot_id         uuid,
    session_id      uuid,
    slot_id         uuid,
    profile_id      uuid,
    key_id          uuid,
    in_use          integer,
    max_slots       integer,
    previous        integer
);
COMMENT ON TABLE license_events IS 'What happened to slots and machines, and why. Equal refusals in a short time are one event with a count.';
COMMENT ON COLUMN license_events.last_at IS 'When it happened last, if count is above 1.';
COMMENT ON COLUMN license_events.previous IS 'For limitChanged the previous limit; for counterRepaired the previous count.';

CREATE INDEX license_events_list ON license_events (organization_id, at, id);
CREATE INDEX license_events_usage ON license_events (organization_id, kind, at) WHERE kind IN ('adopted', 'limitChanged');
CREATE INDEX license_events_session ON license_events (organization_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX license_events_machine ON license_events (organization_id, machine_id, at, id) WHERE machine_id IS NOT NULL;

-- Activity -------------------------------------------------------------------

CREATE TABLE activity_sessions (
    id              uuid        NOT NULL,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    profile_id      uuid        NOT NULL,
    profile_name    text        NOT NULL,
    machine_id      text        NOT NULL,
    launch_id       uuid        NOT NULL,
    browser_version integer     NOT NULL CHECK (browser_version > 0),
    status          text        NOT NULL CHECK (status IN ('running', 'exited', 'killed')),
    end_reason      text,
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    key_id          uuid,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT activity_sessions_end CHECK ((status = 'running') = (ended_at IS NULL))
);
COMMENT ON TABLE activity_sessions IS 'The sessions feed: one row per session that a worker reported.';
COMMENT ON COLUMN activity_sessions.id IS 'Chosen by the worker, therefore unique per organization only.';
COMMENT ON COLUMN activity_sessions.profile_id IS 'No foreign key: the history is kept when the profile is deleted.';
COMMENT ON COLUMN activity_sessions.key_id IS 'The organization key with which the worker reported the start. No foreign key either.';

CREATE INDEX activity_sessions_feed ON activity_sessions (organization_id, started_at DESC, id DESC);
CREATE INDEX activity_sessions_profile ON activity_sessions (organization_id, profile_id, started_at DESC);
-- To delete old sessions of all organizations.
CREATE INDEX activity_sessions_started_at ON activity_sessions (started_at);

-- Browser releases -----------------------------------------------------------

CREATE TABLE chromium_releases (
    id           uuid        PRIMARY KEY,
    version      text        NOT NULL CHECK (version ~ '^[0-9]{1,4}(\.[0-9]{1,5}){3}$'),
    major        integer     NOT NULL GENERATED ALWAYS AS (split_part(version, '.', 1)::integer) STORED,
    channel      text        NOT NULL CHECK (channel IN ('stable', 'beta', 'dev', 'canary')),
    os           text        NOT NULL CHECK (os IN ('linux', 'macos', 'windows')),
    arch         text        NOT NULL CHECK (arch IN ('x86_64', 'arm64')),
    size_bytes   bigint      NOT NULL CHECK (size_bytes > 0),
    sha256       text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    object_key   text        NOT NULL,
    published_at timestamptz NOT NULL,
    CONSTRAINT chromium_releases_build UNIQUE (version, os, arch)
);
COMMENT ON TABLE chromium_releases IS 'The browser builds that workers can install. The archives are in an object store.';
COMMENT ON COLUMN chromium_releases.object_key IS 'The key of the archive in the object store.';

-- Operations: mail, contact, audit, idempotency ------------------------------

CREATE TABLE mail_outbox (
    id             uuid        PRIMARY KEY,
    recipient      text        NOT NULL,
    subject        text        NOT NULL,
    encrypted_text bytea,
    state          text        NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'dead')),
    attempts       integer     NOT NULL DEFAULT 0,
    due_at         timestamptz NOT NULL,
    last_error     text,
    created_at     timestamptz NOT NULL,
    finished_at    timestamptz,
    CONSTRAINT mail_outbox_finished CHECK (
        (state = 'queued') = (finished_at IS NULL) AND (state = 'queued') = (encrypted_text IS NOT NULL))
);
COMMENT ON TABLE mail_outbox IS 'Mails to send, and those sent recently.';
COMMENT ON COLUMN mail_outbox.encrypted_text IS 'Encrypted because it may contain a token. Null once the mail is sent or abandoned.';
COMMENT ON COLUMN mail_outbox.state IS '''dead'' is a mail that was abandoned after too many attempts.';
COMMENT ON COLUMN mail_outbox.due_at IS 'When to try next. During an attempt: when another replica may try.';

CREATE INDEX mail_outbox_due ON mail_outbox (due_at) WHERE state = 'queued';

CREATE TABLE contact_messages (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    email      text        NOT NULL,
    company    text,
    subject    text,
    message    text        NOT NULL,
    network    cidr        NOT NULL,
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE contact_messages IS 'Messages of the public contact form.';
COMMENT ON COLUMN contact_messages.network IS 'The sender''s IPv4 address, or the /64 network of an IPv6 address. The rate limit counts by it.';

CREATE INDEX contact_messages_network ON contact_messages (network, created_at);

CREATE TABLE audit_events (
    id              uuid        PRIMARY KEY,
    organization_id uuid,
    action          text        NOT NULL CHECK (action ~ '^[a-z][A-Za-z]*\.[a-z][A-Za-z]*$' AND length(action) <= 64),
    target_id       text        NOT NULL CHECK (length(target_id) BETWEEN 1 AND 128),
    actor_type      text        NOT NULL CHECK (actor_type IN ('user', 'key', 'operator', 'system')),
    actor_id        uuid,
    actor_email     text,
    client_address  text,
    request_id      text,
    details         jsonb       NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL,
    CONSTRAINT audit_events_actor CHECK ((actor_type IN ('operator', 'system')) = (actor_id IS NULL))
);
COMMENT ON TABLE audit_events IS 'The audit log. It has no foreign keys because its rows are kept when their subject is deleted, even an organization.';
COMMENT ON COLUMN audit_events.organization_id IS 'Null for an operator''s action on a user: no organization sees it.';

CREATE INDEX audit_events_list ON audit_events (organization_id, created_at, id);
CREATE INDEX audit_events_actor ON audit_events (organization_id, actor_id, created_at, id);
CREATE INDEX audit_events_target ON audit_events (organization_id, target_id, created_at, id);

CREATE TABLE idempotency_keys (
    id          bytea       PRIMARY KEY CHECK (length(id) = 32),
    fingerprint bytea       NOT NULL CHECK (length(fingerprint) = 32),
    holder      uuid        NOT NULL,
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    status      integer,
    answer      bytea,
    CONSTRAINT idempotency_keys_answered CHECK ((status IS NULL) = (answer IS NULL))
);
COMMENT ON TABLE idempotency_keys IS 'The answers to requests that had an Idempotency-Key header.';
COMMENT ON COLUMN idempotency_keys.id IS 'SHA-256 of the caller and the key.';
COMMENT ON COLUMN idempotency_keys.fingerprint IS 'SHA-256 of the request.';
COMMENT ON COLUMN idempotency_keys.holder IS 'The request that holds the key until lease_until.';
COMMENT ON COLUMN idempotency_keys.status IS 'The HTTP status of the answer. Null while the request is in progress.';
COMMENT ON COLUMN idempotency_keys.answer IS 'Encrypted because it may contain a secret that is shown once.';

CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at);

-- Functions ------------------------------------------------------------------

CREATE FUNCTION api_key_valid(revoked_at timestamptz, expires_at timestamptz, at timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at)';
COMMENT ON FUNCTION api_key_valid(timestamptz, timestamptz, timestamptz)
    IS 'Reports whether an organization key is accepted at the given time (specification 5.3). The only definition of this rule.';

CREATE FUNCTION license_stale(lease_until timestamptz) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT lease_until <= now()';
COMMENT ON FUNCTION license_stale(timestamptz)
    IS 'Reports whether a slot with this lease is stale and may be reclaimed (specification 3.2). The only definition of this rule.';

-- +goose StatementBegin
CREATE FUNCTION cascade_delete_slots() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM license_slots WHERE organization_id = OLD.organization_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION cascade_delete_slots() IS 'Deletes the slots of an organization whose license_org row is deleted, in place of a foreign key.';

-- The setting is in a scalar subquery so that it is read once per statement, not
-- once per row. A policy that is always true costs nothing when a statement runs.
-- +goose StatementBegin
CREATE PROCEDURE enable_tenant_rls(tenant_table regclass, organization_column name) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY one_organization ON %s USING (%I = (SELECT nullif(current_setting(''svc.organization'', true), '''')::uuid))',
                   tenant_table, organization_column);
    EXECUTE format('CREATE POLICY all_organizations ON %s TO svc_all USING (true)', tenant_table);
END $$;
-- +goose StatementEnd
COMMENT ON PROCEDURE enable_tenant_rls(regclass, name)
    IS 'Enables row-level security on a table of the organizations: svc_app sees the rows of the organization in the setting svc.organization, svc_all sees all rows. Call it for each new table with an organization_id.';

-- Triggers -------------------------------------------------------------------

CREATE TRIGGER cascade_delete_slots AFTER DELETE ON license_org FOR EACH ROW EXECUTE FUNCTION cascade_delete_slots();

-- Roles ----------------------------------------------------------------------
--
-- The service works as svc_app (for one organization) or svc_all (for all of
-- them). Neither owns a table or bypasses row-level security. Roles belong to
-- the server, so they may exist already, and another database of the server may
-- create them at the same time.

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'svc_app') THEN
        CREATE ROLE svc_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role svc_app is missing, and % may not create it', current_user
            USING HINT = format('As a superuser: CREATE ROLE svc_app NOLOGIN; GRANT svc_app TO %I;', current_user);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'svc_all') THEN
        CREATE ROLE svc_all NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role svc_all is missing, and % may not create it', current_user
            USING HINT = format('As a superuser: CREATE ROLE svc_all NOLOGIN; GRANT svc_app TO svc_all; GRANT svc_all TO %I;', current_user);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT pg_has_role(current_user, 'svc_app', 'MEMBER') THEN
        EXECUTE format('GRANT svc_app TO %I', current_user);
    END IF;
    IF NOT pg_has_role('svc_all', 'svc_app', 'MEMBER') THEN
        GRANT svc_app TO svc_all;
    END IF;
    IF NOT pg_has_role(current_user, 'svc_all', 'MEMBER') THEN
        EXECUTE format('GRANT svc_all TO %I', current_user);
    END IF;
END $$;
-- +goose StatementEnd

-- svc_all is a member of svc_app and inherits these. Tables of later migrations
-- get them by the default privileges.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO svc_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO svc_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO svc_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO svc_app;
REVOKE ALL ON goose_db_version FROM svc_app;

-- Row-level security ---------------------------------------------------------
--
-- A connection sees no row of any organization until it sets svc.organization or
-- takes the role svc_all.

CALL enable_tenant_rls('organizations', 'id');
CALL enable_tenant_rls('memberships', 'organization_id');
CALL enable_tenant_rls('invitations', 'organization_id');
CALL enable_tenant_rls('api_keys', 'organization_id');
CALL enable_tenant_rls('api_usage', 'organization_id');
CALL enable_tenant_rls('subscriptions', 'organization_id');
CALL enable_tenant_rls('subscription_add_ons', 'organization_id');
CALL enable_tenant_rls('invoices', 'organization_id');
CALL enable_tenant_rls('deleted_organizations', 'organization_id');
CALL enable_tenant_rls('profiles', 'organization_id');
CALL enable_tenant_rls('license_org', 'organization_id');
CALL enable_tenant_rls('license_queue', 'organization_id');
CALL enable_tenant_rls('license_machines', 'organization_id');
CALL enable_tenant_rls('license_machine_info', 'organization_id');
CALL enable_tenant_rls('license_superseded_boots', 'organization_id');
CALL enable_tenant_rls('license_slots', 'organization_id');
CALL enable_tenant_rls('license_events', 'organization_id');
CALL enable_tenant_rls('activity_sessions', 'organization_id');
CALL enable_tenant_rls('audit_events', 'organization_id');
