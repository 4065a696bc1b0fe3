-- Service accounts of organizations.

-- +goose Up

CREATE TABLE service_accounts (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            text        NOT NULL,
    scopes          text[]      NOT NULL CONSTRAINT service_accounts_scopes CHECK (cardinality(scopes) > 0),
    disabled        boolean     NOT NULL DEFAULT false,
    created_by      uuid        REFERENCES users (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    CONSTRAINT service_accounts_name UNIQUE (organization_id, name),
    CONSTRAINT service_accounts_organization_key UNIQUE (organization_id, id)
);
CREATE INDEX service_accounts_created_by ON service_accounts (created_by) WHERE created_by IS NOT NULL;
COMMENT ON TABLE service_accounts IS 'Identities of organizations for programs that belong to no person.';
COMMENT ON COLUMN service_accounts.disabled IS 'A disabled account has no tokens.';
COMMENT ON COLUMN service_accounts.last_used_at IS 'Written at most once a minute for each token; null if the account was never used.';

CALL enable_tenant_rls('service_accounts', 'organization_id');

ALTER TABLE access_tokens
    ALTER COLUMN user_id DROP NOT NULL,
    ADD COLUMN service_account_id uuid,
    ADD CONSTRAINT access_tokens_subject CHECK ((user_id IS NULL) <> (service_account_id IS NULL)) NOT VALID,
    ADD CONSTRAINT access_tokens_service_account_fkey FOREIGN KEY (organization_id, service_account_id)
        REFERENCES service_accounts (organization_id, id) ON DELETE CASCADE NOT VALID;
CREATE INDEX access_tokens_service_account_idx ON access_tokens (organization_id, service_account_id) WHERE service_account_id IS NOT NULL;
COMMENT ON TABLE access_tokens IS 'Tokens with which programs act for a user or a service account in one organization. They end with the membership or the account.';

ALTER TABLE audit_events
    ADD COLUMN actor_name text,
    DROP CONSTRAINT audit_events_actor_type_check,
    ADD CONSTRAINT audit_events_actor_type_check CHECK (actor_type IN ('user', 'key', 'serviceAccount', 'operator', 'system')) NOT VALID;
COMMENT ON COLUMN audit_events.actor_name IS 'The name of a service account at the time of the event; null for other actors.';
