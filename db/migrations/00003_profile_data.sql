-- Versions of the browser data of persistent profiles, and who may write it. The data
-- itself is in an object store of the workers.

-- +goose Up

CREATE TABLE profile_data (
    profile_id      uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    current_version uuid,
    lease_session   uuid,
    lease_machine   text,
    CONSTRAINT profile_data_lease CHECK ((lease_session IS NULL) = (lease_machine IS NULL))
);
COMMENT ON TABLE profile_data IS 'The current version of the browser data of each persistent profile, and the session that may write the next one.';
COMMENT ON COLUMN profile_data.profile_id IS 'No foreign key: it would be checked for each ephemeral profile. The trigger delete_profile_data deletes the row with the profile.';
COMMENT ON COLUMN profile_data.current_version IS 'Null if no version exists.';
COMMENT ON COLUMN profile_data.lease_session IS 'The session that last acquired the data. Its lease lasts as long as its license slot.';
CREATE INDEX profile_data_organization ON profile_data (organization_id);

CREATE TABLE profile_data_versions (
    id              uuid PRIMARY KEY,
    organization_id uuid        NOT NULL,
    profile_id      uuid        NOT NULL REFERENCES profile_data (profile_id) ON DELETE CASCADE,
    session_id      uuid        NOT NULL,
    machine_id      text        NOT NULL,
    size_bytes      bigint      NOT NULL CHECK (size_bytes >= 0),
    sent_bytes      bigint      NOT NULL CHECK (sent_bytes >= 0),
    created_at      timestamptz NOT NULL
);
COMMENT ON TABLE profile_data_versions IS 'The saved versions of the browser data of profiles.';
COMMENT ON COLUMN profile_data_versions.size_bytes IS 'The size of the files.';
COMMENT ON COLUMN profile_data_versions.sent_bytes IS 'The size of the objects that the worker added to the store.';
CREATE INDEX profile_data_versions_profile ON profile_data_versions (profile_id, created_at);

CREATE TABLE profile_data_keys (
    organization_id uuid PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    key_secret      bytea NOT NULL
);
COMMENT ON TABLE profile_data_keys IS 'The keys with which workers encrypt the browser data of each organization.';
COMMENT ON COLUMN profile_data_keys.key_secret IS 'The key, encrypted with this organization as associated data.';

CALL enable_tenant_rls('profile_data', 'organization_id');
CALL enable_tenant_rls('profile_data_versions', 'organization_id');
CALL enable_tenant_rls('profile_data_keys', 'organization_id');

-- +goose StatementBegin
CREATE FUNCTION delete_profile_data() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM profile_data WHERE organization_id = OLD.organization_id AND profile_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION delete_profile_data() IS 'Deletes the versions of a deleted profile''s data, in place of a foreign key.';
CREATE TRIGGER delete_profile_data AFTER DELETE ON profiles FOR EACH ROW WHEN (NOT OLD.ephemeral) EXECUTE FUNCTION delete_profile_data();
