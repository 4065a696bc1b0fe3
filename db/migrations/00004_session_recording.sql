-- Which sessions are recorded, and where.

-- +goose Up

ALTER TABLE activity_sessions ADD COLUMN recording jsonb;
COMMENT ON COLUMN activity_sessions.recording IS 'What the worker records, and the URL of the recording; null if it records nothing.';
