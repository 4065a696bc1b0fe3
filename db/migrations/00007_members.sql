-- Invitations to become a member. The token is never stored, only its SHA-256.

-- +goose Up
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
COMMENT ON COLUMN invitations.outcome IS 'null while it is open; one that has expired becomes ''expired'' when its address is invited again';

-- One open invitation an address; and what counts to the member limit.
CREATE UNIQUE INDEX invitations_open ON invitations (organization_id, email) WHERE outcome IS NULL;
CREATE INDEX invitations_invited_by ON invitations (invited_by) WHERE invited_by IS NOT NULL;

-- +goose Down
DROP TABLE invitations;
