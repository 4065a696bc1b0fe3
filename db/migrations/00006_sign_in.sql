-- Sign-in: verified addresses, mailed tokens, the list of sessions, attempts
-- counted, single sign-on.

-- +goose Up

-- credential_version grows when sessions begun with the old credentials must
-- not be: it stops a sign-in that is under way. A password_hash that is null is
-- of an account made by single sign-on.
ALTER TABLE users
    ADD COLUMN email_verified_at  timestamptz,
    ADD COLUMN credential_version integer NOT NULL DEFAULT 0,
    ALTER COLUMN password_hash DROP NOT NULL;

-- Who a user is at an OpenID provider.
CREATE TABLE user_identities (
    issuer     text        NOT NULL,
    subject    text        NOT NULL,
    user_id    uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX user_identities_user_id_idx ON user_identities (user_id);

-- What mails carry. The token itself is never stored, only its SHA-256. The
-- foreign key is checked at commit: asking for an unknown account's token does
-- the same work, and takes it back.
CREATE TABLE auth_tokens (
    token_hash bytea       PRIMARY KEY CONSTRAINT auth_tokens_token_hash_length CHECK (length(token_hash) = 32),
    user_id    uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    purpose    text        NOT NULL CONSTRAINT auth_tokens_purpose CHECK (purpose IN ('verifyEmail', 'resetPassword')),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX auth_tokens_user_id_idx ON auth_tokens (user_id);
CREATE INDEX auth_tokens_expires_at_idx ON auth_tokens (expires_at);

-- How often something was attempted. The subject is the SHA-256 of an e-mail
-- address, known or not, or of a client's address.
CREATE TABLE auth_attempts (
    kind          text        NOT NULL,
    subject       bytea       NOT NULL,
    attempts      integer     NOT NULL,
    blocked_until timestamptz NOT NULL,
    forget_at     timestamptz NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX auth_attempts_forget_at_idx ON auth_attempts (forget_at);

-- Sessions that began before are over: they don't know their id.
DELETE FROM auth_sessions;
ALTER TABLE auth_sessions
    ADD COLUMN id           uuid        NOT NULL,
    ADD COLUMN created_at   timestamptz NOT NULL,
    ADD COLUMN last_seen_at timestamptz NOT NULL,
    ADD COLUMN ip_address   text        NOT NULL,
    ADD COLUMN user_agent   text        NOT NULL,
    ADD CONSTRAINT auth_sessions_id_key UNIQUE (id);

-- +goose Down
ALTER TABLE auth_sessions
    DROP COLUMN id, DROP COLUMN created_at, DROP COLUMN last_seen_at, DROP COLUMN ip_address, DROP COLUMN user_agent;
DROP TABLE auth_attempts, auth_tokens, user_identities;
DELETE FROM users WHERE password_hash IS NULL;
ALTER TABLE users
    DROP COLUMN email_verified_at, DROP COLUMN credential_version, ALTER COLUMN password_hash SET NOT NULL;
