-- Credentials that workers type into pages.

-- +goose Up

CREATE TABLE secrets (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            text        NOT NULL,
    username        text,
    origins         text[]      NOT NULL,
    profile_ids     uuid[],
    password_secret bytea,
    totp_secret     bytea,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    CONSTRAINT secrets_name UNIQUE (organization_id, name)
);
COMMENT ON TABLE secrets IS 'Credentials that workers type into pages.';
COMMENT ON COLUMN secrets.profile_ids IS 'The profiles whose sessions may use the secret; null for all, empty for none. The trigger forget_secret_profile removes deleted profiles.';
COMMENT ON COLUMN secrets.password_secret IS 'The password, encrypted with this organization, secret and column as associated data; null for none.';
COMMENT ON COLUMN secrets.totp_secret IS 'The TOTP seed, encrypted in the same way; null for none.';

CALL enable_tenant_rls('secrets', 'organization_id');

-- +goose StatementBegin
CREATE FUNCTION forget_secret_profile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE secrets SET profile_ids = array_remove(profile_ids, OLD.id)
    WHERE organization_id = OLD.organization_id AND OLD.id = ANY (profile_ids);
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION forget_secret_profile() IS 'Removes a deleted profile from the secrets of its organization. A secret that only this profile could use remains without profiles.';
CREATE TRIGGER forget_secret_profile AFTER DELETE ON profiles FOR EACH ROW WHEN (NOT OLD.ephemeral) EXECUTE FUNCTION forget_secret_profile();
