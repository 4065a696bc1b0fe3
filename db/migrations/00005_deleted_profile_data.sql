-- Which directories of object stores have the profile data of deleted organizations.

-- +goose Up

CREATE TABLE deleted_profile_data (
    directory       text PRIMARY KEY,
    organization_id uuid        NOT NULL,
    deleted_at      timestamptz NOT NULL
);
COMMENT ON TABLE deleted_profile_data IS 'The directories with the profile data of deleted organizations, which workers delete. Rows are kept: a worker may ask after years.';
COMMENT ON COLUMN deleted_profile_data.directory IS 'Derived from the key of the organization, so that only workers that have seen the store know it.';
COMMENT ON COLUMN deleted_profile_data.organization_id IS 'No foreign key: the organization does not exist any more.';

CALL enable_tenant_rls('deleted_profile_data', 'organization_id');
