-- The sessions feed: what ran, kept when the profile is gone.

-- +goose Up
CREATE TABLE activity_sessions (
    id              uuid NOT NULL,
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    profile_id      uuid NOT NULL,
    profile_name    text NOT NULL,
    machine_id      text NOT NULL,
    launch_id       uuid NOT NULL,
    browser_version integer NOT NULL CHECK (browser_version > 0),
    status          text NOT NULL CHECK (status IN ('running', 'exited', 'killed')),
    end_reason      text,
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (organization_id, id), -- workers choose the ids
    CONSTRAINT activity_sessions_end CHECK ((status = 'running') = (ended_at IS NULL))
);
COMMENT ON TABLE activity_sessions IS 'one row per session that a worker reported; profile_id has no foreign key, since history outlives profiles';

CREATE INDEX activity_sessions_feed ON activity_sessions (organization_id, started_at DESC, id DESC);
CREATE INDEX activity_sessions_profile ON activity_sessions (organization_id, profile_id, started_at DESC);

-- +goose Down
DROP TABLE activity_sessions;
