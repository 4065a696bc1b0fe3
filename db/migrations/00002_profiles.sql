-- Profiles: what a browser presents, and how it is launched.

-- +goose Up
CREATE TABLE profiles (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            text NOT NULL,
    notes           text NOT NULL DEFAULT '',
    tags            text[] NOT NULL DEFAULT '{}',
    browser_version integer CHECK (browser_version > 0),
    os              text,
    settings        jsonb NOT NULL DEFAULT '{}',
    proxy_secret    bytea,
    persist         boolean NOT NULL DEFAULT false,
    metadata        jsonb NOT NULL DEFAULT '{}',
    version         bigint NOT NULL DEFAULT 1,
    ephemeral       boolean NOT NULL DEFAULT false,
    last_used_at    timestamptz,
    created_by      uuid REFERENCES users (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    -- A launch may leave its version to the worker, whose start report settles it.
    CONSTRAINT profiles_version_known CHECK (ephemeral OR browser_version IS NOT NULL)
);
COMMENT ON COLUMN profiles.settings IS 'the other settings, under the names they have in the API; never a secret';
COMMENT ON COLUMN profiles.proxy_secret IS 'the proxy password, sealed for this organization and profile';
COMMENT ON COLUMN profiles.ephemeral IS 'lives as long as one launch: counted, not listed';

-- The list, and the count of all profiles of an organization.
CREATE INDEX profiles_list ON profiles (organization_id, created_at, id) WHERE NOT ephemeral;
CREATE INDEX profiles_ephemeral ON profiles (organization_id) WHERE ephemeral;
CREATE INDEX profiles_tags ON profiles USING gin (tags) WHERE NOT ephemeral;
CREATE INDEX profiles_created_by ON profiles (created_by) WHERE created_by IS NOT NULL;

-- +goose Down
DROP TABLE profiles;
