-- Events for the webhooks and the event stream of organizations.

-- +goose Up

CREATE TABLE webhook_endpoints (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    url             text        NOT NULL,
    description     text,
    types           text[]      CONSTRAINT webhook_endpoints_types CHECK (cardinality(types) > 0),
    secret          bytea       NOT NULL,
    old_secret      bytea,
    old_secret_until timestamptz,
    enabled         boolean     NOT NULL,
    disabled_reason text        CONSTRAINT webhook_endpoints_disabled_reason CHECK (disabled_reason IN ('failing', 'gone')),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    failing_since   timestamptz,
    paused_until    timestamptz NOT NULL DEFAULT '-infinity',
    lease_id        uuid,
    lease_until     timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
CREATE INDEX webhook_endpoints_organization_idx ON webhook_endpoints (organization_id);
COMMENT ON TABLE webhook_endpoints IS 'The URLs to which the events of an organization are sent.';
COMMENT ON COLUMN webhook_endpoints.types IS 'The types of the events to send; null for all.';
COMMENT ON COLUMN webhook_endpoints.secret IS 'The secret that signs requests, encrypted with this organization and endpoint as associated data.';
COMMENT ON COLUMN webhook_endpoints.old_secret IS 'The secret before the last rotation, encrypted in the same way. It signs too, until old_secret_until.';
COMMENT ON COLUMN webhook_endpoints.disabled_reason IS 'Why the service disabled the endpoint; null if a person did.';
COMMENT ON COLUMN webhook_endpoints.failing_since IS 'The first failed attempt since the last delivery; null if the last attempt succeeded.';
COMMENT ON COLUMN webhook_endpoints.paused_until IS 'No attempts before this time, because all of the last ones failed.';
COMMENT ON COLUMN webhook_endpoints.lease_id IS 'The replica that sends to the endpoint, until lease_until.';

CREATE TABLE event_readers (
    organization_id uuid PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    read_until      timestamptz NOT NULL
);
COMMENT ON TABLE event_readers IS 'The organizations that read the event stream. Until read_until, their events are recorded.';

CREATE TABLE events (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL,
    seq             bigint      GENERATED ALWAYS AS IDENTITY,
    position        bigint,
    type            text        NOT NULL,
    subject         text,
    data            jsonb       NOT NULL,
    is_test         boolean     NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL
);
CREATE INDEX events_unpublished_idx ON events (seq) WHERE position IS NULL;
CREATE UNIQUE INDEX events_position_idx ON events (position);
CREATE INDEX events_organization_idx ON events (organization_id, position) WHERE NOT is_test;
COMMENT ON TABLE events IS 'What happened in organizations that have an enabled endpoint or read the event stream. Triggers insert the events in the transaction of the change.';
COMMENT ON COLUMN events.organization_id IS 'No foreign key: its check would lock the organization in transactions that have already locked sessions. A trigger deletes the events with the organization.';
COMMENT ON COLUMN events.seq IS 'The order of the inserts. Transactions commit in another order.';
COMMENT ON COLUMN events.position IS 'The order in which readers see the events, without later insertions; null until the event is published.';
COMMENT ON COLUMN events.subject IS 'The session or machine. Events of one subject are delivered in their order. Null if the order has no meaning.';
COMMENT ON COLUMN events.is_test IS 'A test of one endpoint, which the stream does not contain.';

CREATE TABLE webhook_deliveries (
    id              uuid        PRIMARY KEY,
    organization_id uuid        NOT NULL,
    endpoint_id     uuid        NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
    event_id        uuid        NOT NULL,
    position        bigint      NOT NULL,
    type            text        NOT NULL,
    subject         text,
    state           text        NOT NULL DEFAULT 'pending' CONSTRAINT webhook_deliveries_state CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts        integer     NOT NULL DEFAULT 0,
    due_at          timestamptz NOT NULL,
    last_attempt_at timestamptz,
    last_status     integer,
    last_error      text,
    created_at      timestamptz NOT NULL
);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (endpoint_id, due_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_subject_idx ON webhook_deliveries (endpoint_id, subject, position) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_created_idx ON webhook_deliveries (endpoint_id, created_at, id);
COMMENT ON TABLE webhook_deliveries IS 'The events to send to each endpoint, and those sent in the last days.';
COMMENT ON COLUMN webhook_deliveries.subject IS 'A delivery waits for the earlier pending ones to the same endpoint with the same subject.';
COMMENT ON COLUMN webhook_deliveries.last_error IS 'Why the last attempt failed, for people; null if it succeeded.';

CREATE TABLE event_lost_machines (
    organization_id uuid NOT NULL,
    machine_id      text NOT NULL,
    PRIMARY KEY (organization_id, machine_id),
    CONSTRAINT event_lost_machines_machine_fkey FOREIGN KEY (organization_id, machine_id)
        REFERENCES license_machines (organization_id, machine_id) ON DELETE CASCADE
);
COMMENT ON TABLE event_lost_machines IS 'The machines for which machine.lost was the last event.';

CREATE SEQUENCE event_positions;

CALL enable_tenant_rls('webhook_endpoints', 'organization_id');
CALL enable_tenant_rls('event_readers', 'organization_id');
CALL enable_tenant_rls('events', 'organization_id');
CALL enable_tenant_rls('webhook_deliveries', 'organization_id');
CALL enable_tenant_rls('event_lost_machines', 'organization_id');

-- +goose StatementBegin
CREATE FUNCTION event_wanted(organization uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM webhook_endpoints w WHERE w.organization_id = organization AND w.enabled)
        OR EXISTS (SELECT FROM event_readers r WHERE r.organization_id = organization AND r.read_until > now())
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION event_wanted(uuid) IS 'Reports whether events of the organization are recorded.';

-- +goose StatementBegin
CREATE FUNCTION event_time(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION event_time(timestamptz) IS 'Returns a time as RFC 3339 in UTC, as in the API.';

-- +goose StatementBegin
CREATE FUNCTION insert_event(organization uuid, type text, subject text, data jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO events (id, organization_id, type, subject, data, created_at)
    SELECT license_event_id(at), organization, type, subject, data, at FROM clock_timestamp() AS at
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION insert_event(uuid, text, text, jsonb) IS 'Records an event. The caller checks event_wanted before it builds the data.';

-- +goose StatementBegin
CREATE FUNCTION record_session_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    data jsonb;
BEGIN
    IF NOT event_wanted(NEW.organization_id) THEN
        RETURN NULL;
    END IF;
    data := jsonb_build_object('sessionId', NEW.id, 'profileId', NEW.profile_id, 'profileName', NEW.profile_name, 'machineId', NEW.machine_id,
        'keyId', NEW.key_id, 'launchId', NEW.launch_id, 'browserVersion', NEW.browser_version, 'name', NEW.name,
        'metadata', coalesce(NEW.metadata, '{}'), 'startedAt', event_time(NEW.started_at));
    IF NEW.status = 'running' THEN
        PERFORM insert_event(NEW.organization_id, 'session.started', 'session:' || NEW.id, data || jsonb_build_object('resumed', TG_OP = 'UPDATE'));
    ELSE
        PERFORM insert_event(NEW.organization_id, 'session.ended', 'session:' || NEW.id,
            data || jsonb_build_object('status', NEW.status, 'endReason', NEW.end_reason, 'endedAt', event_time(NEW.ended_at)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION record_session_event() IS 'Records session.started and session.ended.';
CREATE TRIGGER record_session_start AFTER INSERT ON activity_sessions FOR EACH ROW
    WHEN (NEW.status = 'running') EXECUTE FUNCTION record_session_event();
CREATE TRIGGER record_session_change AFTER UPDATE ON activity_sessions FOR EACH ROW
    WHEN ((OLD.status = 'running') <> (NEW.status = 'running')) EXECUTE FUNCTION record_session_event();

-- +goose StatementBegin
CREATE FUNCTION record_refusal_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'launch.refused', NULL, jsonb_build_object('reason', NEW.reason, 'count', NEW.count,
            'sessionId', NEW.session_id, 'profileId', NEW.profile_id, 'machineId', NEW.machine_id, 'keyId', NEW.key_id,
            'current', NEW.in_use, 'limit', NEW.max_slots, 'at', event_time(NEW.at)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION record_refusal_event() IS 'Records launch.refused.';
CREATE TRIGGER record_refusal AFTER INSERT ON license_events FOR EACH ROW
    WHEN (NEW.kind = 'refused') EXECUTE FUNCTION record_refusal_event();

-- +goose StatementBegin
CREATE FUNCTION record_revocation_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'key.revoked', NULL, jsonb_build_object('keyId', NEW.id, 'name', NEW.name,
            'prefix', NEW.prefix, 'lastFour', NEW.last_four, 'revokedAt', event_time(NEW.revoked_at)));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION record_revocation_event() IS 'Records key.revoked.';
CREATE TRIGGER record_revocation AFTER UPDATE ON api_keys FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation_event();

-- +goose StatementBegin
CREATE FUNCTION record_invoice_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'invoice.created', NULL, jsonb_build_object('invoiceId', NEW.id, 'number', NEW.number,
            'status', NEW.status, 'currency', NEW.currency, 'totalCents', NEW.total_cents, 'amountDueCents', NEW.amount_due_cents,
            'periodStart', event_time(NEW.period_start), 'periodEnd', event_time(NEW.period_end), 'hostedUrl', NEW.hosted_url));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION record_invoice_event() IS 'Records invoice.created.';
CREATE TRIGGER record_invoice AFTER INSERT ON invoices FOR EACH ROW EXECUTE FUNCTION record_invoice_event();

-- +goose StatementBegin
CREATE FUNCTION delete_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM events WHERE organization_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION delete_events() IS 'Deletes the events of a deleted organization, in place of a foreign key.';
CREATE TRIGGER delete_events AFTER DELETE ON organizations FOR EACH ROW EXECUTE FUNCTION delete_events();
