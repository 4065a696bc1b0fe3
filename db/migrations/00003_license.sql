-- License accounting: one row per slot from reservation to end, and one counter
-- row per organization. The counter changes in the transaction that makes a slot
-- live or ends it, and always last: machine, slots, counter.

-- +goose Up
CREATE TABLE license_org (
    org_id    uuid PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    max_slots integer CHECK (max_slots >= 0), -- null is unlimited
    in_use    integer NOT NULL DEFAULT 0 CHECK (in_use >= 0)
) WITH (fillfactor = 10); -- the hottest rows: room for many versions on their own page

-- What each worker host said last. A boot is one run of a worker; past_boots are
-- the ones that it replaced, the latest last.
CREATE TABLE license_machines (
    org_id       uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    machine_id   text        NOT NULL,
    boot_id      uuid        NOT NULL,
    past_boots   uuid[]      NOT NULL DEFAULT '{}',
    seq          bigint      NOT NULL,
    heartbeat_at timestamptz NOT NULL, -- when this boot last reported, a start included
    PRIMARY KEY (org_id, machine_id)
) WITH (fillfactor = 50);

CREATE TABLE license_slots (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    profile_id      uuid,
    key_id          uuid,
    session_id      uuid        NOT NULL,
    machine_id      text,
    boot_id         uuid,
    seq             bigint      NOT NULL DEFAULT 0,
    state           text        NOT NULL CHECK (state IN ('reserved', 'running', 'released')),
    launch_id       uuid,
    browser_version integer,
    reserved_at     timestamptz NOT NULL,
    started_at      timestamptz, -- by the worker's clock, for display
    heartbeat_at    timestamptz,
    lease_until     timestamptz NOT NULL,
    released_at     timestamptz,
    release_reason  text CHECK (release_reason IN ('ended', 'omitted', 'lapsed')),
    ended_at        timestamptz, -- by the worker's clock, for display
    end_status      text CHECK (end_status IN ('exited', 'killed')),
    end_reason      text,
    CONSTRAINT license_slots_session UNIQUE (org_id, session_id),
    CONSTRAINT license_slots_released CHECK (
        (state = 'released') = (released_at IS NOT NULL)
        AND num_nulls(released_at, release_reason, ended_at, end_status, end_reason) IN (0, 5)),
    CONSTRAINT license_slots_owned CHECK (state = 'released' OR (machine_id IS NOT NULL AND boot_id IS NOT NULL)),
    CONSTRAINT license_slots_started CHECK (
        state <> 'running'
        OR num_nulls(profile_id, launch_id, browser_version, started_at) = 0)
) WITH (fillfactor = 70);

-- The one index on live rows. Its condition is on released_at, not on state, so
-- that a start touches no index; and no index holds lease_until or heartbeat_at,
-- so that a heartbeat doesn't either.
CREATE INDEX license_slots_live ON license_slots (org_id, machine_id) WHERE released_at IS NULL;

-- The stale rule (specification 3.2), its only definition: lease_until is
-- reservation + 2 minutes, start + 6 hours until the first heartbeat, and
-- heartbeat + 5 minutes from then on.
CREATE FUNCTION license_stale(lease_until timestamptz) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT lease_until <= now()';

-- +goose Down
DROP FUNCTION license_stale(timestamptz);
DROP TABLE license_slots;
DROP TABLE license_machines;
DROP TABLE license_org;
