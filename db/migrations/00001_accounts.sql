-- +goose Up
CREATE TABLE users (
    id                   uuid        PRIMARY KEY,
    email                text        NOT NULL CONSTRAINT users_email_lower CHECK (email = lower(email COLLATE "C")),
    name                 text        NOT NULL,
    password_hash        text        NOT NULL,
    created_at           timestamptz NOT NULL,
    last_organization_id uuid,
    CONSTRAINT users_email_key UNIQUE (email)
);

CREATE TABLE organizations (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    slug       text        NOT NULL,
    created_at timestamptz NOT NULL,
    created_by uuid        REFERENCES users (id) ON DELETE SET NULL,
    CONSTRAINT organizations_slug_key UNIQUE (slug)
);

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

-- Dashboard sessions. The token itself is never stored, only its SHA-256.
CREATE TABLE auth_sessions (
    token_hash text        PRIMARY KEY,
    user_id    uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    data       bytea       NOT NULL,
    expiry     timestamptz NOT NULL
);
CREATE INDEX auth_sessions_user_id_idx ON auth_sessions (user_id);
CREATE INDEX auth_sessions_expiry_idx ON auth_sessions (expiry);

-- Organization keys. The key itself is never stored, only its SHA-256.
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

-- What can be subscribed to. A limit that is null is no limit.
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

-- The limits of an organization, copied from its plan when it was bought: a
-- later change of the plan does not reach them. Effective is base and
-- additional together, or null (no limit) when base is null.
CREATE TABLE subscriptions (
    organization_id          uuid        PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    plan_id                  uuid        NOT NULL REFERENCES plans (id),
    base_profile_limit       integer,
    additional_profile_limit integer     NOT NULL DEFAULT 0,
    effective_profile_limit  integer     GENERATED ALWAYS AS (base_profile_limit + additional_profile_limit) STORED,
    base_member_limit        integer,
    additional_member_limit  integer     NOT NULL DEFAULT 0,
    effective_member_limit   integer     GENERATED ALWAYS AS (base_member_limit + additional_member_limit) STORED,
    base_api_rpm_limit       integer,
    additional_api_rpm_limit integer     NOT NULL DEFAULT 0,
    effective_api_rpm_limit  integer     GENERATED ALWAYS AS (base_api_rpm_limit + additional_api_rpm_limit) STORED,
    base_api_rph_limit       integer,
    additional_api_rph_limit integer     NOT NULL DEFAULT 0,
    effective_api_rph_limit  integer     GENERATED ALWAYS AS (base_api_rph_limit + additional_api_rph_limit) STORED,
    created_at               timestamptz NOT NULL,
    updated_at               timestamptz NOT NULL
);

INSERT INTO plans (id, slug, name, price_cents, currency, interval,
                   profile_limit, member_limit, api_rpm_limit, api_rph_limit, position)
VALUES
    ('019a5f00-0000-7000-8000-000000000001', 'free',       'Free',           0, 'usd', 'month',    3,    1,   60,   1000, 1),
    ('019a5f00-0000-7000-8000-000000000002', 'starter',    'Starter',     2900, 'usd', 'month',   10,    3,  120,   5000, 2),
    ('019a5f00-0000-7000-8000-000000000003', 'team',       'Team',        9900, 'usd', 'month',   50,   10,  600,  20000, 3),
    ('019a5f00-0000-7000-8000-000000000004', 'scale',      'Scale',      39900, 'usd', 'month',  250,   50, 3000, 100000, 4),
    ('019a5f00-0000-7000-8000-000000000005', 'enterprise', 'Enterprise', 99900, 'usd', 'month', NULL, NULL, NULL,   NULL, 5);

-- +goose Down
DROP TABLE subscriptions, plans, api_keys, auth_sessions, memberships CASCADE;
ALTER TABLE users DROP CONSTRAINT users_last_organization_id_fkey;
DROP TABLE organizations;
DROP TABLE users;
