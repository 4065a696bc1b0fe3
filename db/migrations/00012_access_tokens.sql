-- The access tokens of users.

-- +goose Up

CREATE TABLE access_tokens (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL,
    user_id         uuid        NOT NULL,
    name            text        NOT NULL,
    scopes          text[]      NOT NULL CONSTRAINT access_tokens_scopes CHECK (cardinality(scopes) > 0),
    token_hash      bytea       NOT NULL CONSTRAINT access_tokens_token_hash_length CHECK (length(token_hash) = 32),
    last_four       text        NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    CONSTRAINT access_tokens_token_hash_key UNIQUE (token_hash),
    CONSTRAINT access_tokens_membership_fkey FOREIGN KEY (organization_id, user_id)
        REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);
CREATE INDEX access_tokens_membership_idx ON access_tokens (organization_id, user_id);
CREATE INDEX access_tokens_expires_at_idx ON access_tokens (expires_at);
COMMENT ON TABLE access_tokens IS 'Tokens with which programs act for a user in one organization. They end with the membership.';
COMMENT ON COLUMN access_tokens.token_hash IS 'SHA-256 of the token. The token itself is never stored.';
COMMENT ON COLUMN access_tokens.last_used_at IS 'Written at most once a minute; null if the token was never used.';

CALL enable_tenant_rls('access_tokens', 'organization_id');
