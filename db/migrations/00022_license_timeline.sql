-- What became of a slot, and why: events beside the rows, and the boots that
-- share a machine id.

-- +goose Up
ALTER TABLE license_slots ADD COLUMN first_heartbeat_at timestamptz;

-- When the machine was heard of before heartbeat_at.
ALTER TABLE license_machines ADD COLUMN previous_at timestamptz;

-- An id of version 7 for something that happened then, so that ids are in the
-- order of time.
-- +goose StatementBegin
CREATE FUNCTION license_event_id(happened timestamptz) RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_byte(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM happened) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        6, 112 + floor(random() * 16)::int), 'hex')::uuid
$$;
-- +goose StatementEnd

CREATE TABLE license_events (
    id         uuid        PRIMARY KEY DEFAULT license_event_id(clock_timestamp()),
    org_id     uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    kind       text        NOT NULL CHECK (kind IN ('refused', 'lapsed', 'omitted', 'adopted', 'limitChanged',
                                                    'machineDuplicated', 'machineAlone', 'counterRepaired')),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    count      integer     NOT NULL DEFAULT 1 CHECK (count > 0),
    reason     text,
    machine_id text,
    boot_id    uuid,
    session_id uuid,
    slot_id    uuid,
    profile_id uuid,
    key_id     uuid,
    in_use     integer,
    max_slots  integer,
    previous   integer
);
COMMENT ON COLUMN license_events.previous IS 'the limit before it changed; the count before it was repaired';

CREATE INDEX license_events_list ON license_events (org_id, at, id);
CREATE INDEX license_events_session ON license_events (org_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX license_events_machine ON license_events (org_id, machine_id, at, id) WHERE machine_id IS NOT NULL;
CALL seclude('license_events', 'org_id');

CREATE TABLE license_late_boots (
    org_id       uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    machine_id   text        NOT NULL,
    boot_id      uuid        NOT NULL,
    seq          bigint      NOT NULL,
    since        timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    alive_since  timestamptz,
    PRIMARY KEY (org_id, machine_id, boot_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE license_late_boots IS 'boots that reported after another one took their machine over';
COMMENT ON COLUMN license_late_boots.since IS 'when it first did, without a long pause since';
COMMENT ON COLUMN license_late_boots.alive_since IS 'when it proved to be alive, so that two workers share the machine id';
CALL seclude('license_late_boots', 'org_id');

-- +goose Down
DROP TABLE license_late_boots;
DROP TABLE license_events;
DROP FUNCTION license_event_id(timestamptz);
ALTER TABLE license_machines DROP COLUMN previous_at;
ALTER TABLE license_slots DROP COLUMN first_heartbeat_at;
