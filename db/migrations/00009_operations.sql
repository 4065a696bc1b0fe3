-- What the service does beside its main work: mail, contact, audit, answers
-- that are given again, and forgetting. All ids but those of idempotency_keys
-- are of version 7, so that a primary key is in the order of creation, and
-- serves to find what is old.

-- +goose Up
CREATE TABLE mail_outbox (
    id          uuid        PRIMARY KEY,
    recipient   text        NOT NULL,
    subject     text        NOT NULL,
    sealed_text bytea,
    state       text        NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'dead')),
    attempts    integer     NOT NULL DEFAULT 0,
    due_at      timestamptz NOT NULL,
    last_error  text,
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    CONSTRAINT mail_outbox_finished CHECK (
        (state = 'queued') = (finished_at IS NULL) AND (state = 'queued') = (sealed_text IS NOT NULL))
);
COMMENT ON COLUMN mail_outbox.sealed_text IS 'encrypted, since it may carry a token; wiped once it was sent or given up';
COMMENT ON COLUMN mail_outbox.due_at IS 'when to try; while one tries, when another one may';

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
COMMENT ON COLUMN contact_messages.network IS 'whom the limit counts: an IPv4 address, or the /64 of an IPv6 one';

CREATE INDEX contact_messages_network ON contact_messages (network, created_at);

CREATE TABLE audit_events (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL,
    action          text        NOT NULL CHECK (action ~ '^[a-z][A-Za-z]*\.[a-z][A-Za-z]*$' AND length(action) <= 64),
    target_id       text        NOT NULL CHECK (length(target_id) BETWEEN 1 AND 128),
    actor_type      text        NOT NULL CHECK (actor_type IN ('user', 'key', 'system')),
    actor_id        uuid,
    actor_email     text,
    client_address  text,
    request_id      text,
    details         jsonb       NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL,
    CONSTRAINT audit_events_actor CHECK ((actor_type = 'system') = (actor_id IS NULL))
);
COMMENT ON TABLE audit_events IS 'who changed what; no foreign keys, since it outlives what it tells of, an organization''s end included';

CREATE INDEX audit_events_list ON audit_events (organization_id, created_at, id);
CREATE INDEX audit_events_actor ON audit_events (organization_id, actor_id, created_at, id);
CREATE INDEX audit_events_target ON audit_events (organization_id, target_id, created_at, id);

-- One row per Idempotency-Key. It is claimed while status is null.
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
COMMENT ON COLUMN idempotency_keys.id IS 'SHA-256 of who sent the key and of the key';
COMMENT ON COLUMN idempotency_keys.fingerprint IS 'SHA-256 of the request';
COMMENT ON COLUMN idempotency_keys.answer IS 'encrypted, since it may hold a secret that is shown once';

CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at);

-- Old sessions across organizations. Their start never changes.
CREATE INDEX activity_sessions_started_at ON activity_sessions (started_at);

-- +goose Down
DROP INDEX activity_sessions_started_at;
DROP TABLE idempotency_keys;
DROP TABLE audit_events;
DROP TABLE contact_messages;
DROP TABLE mail_outbox;
