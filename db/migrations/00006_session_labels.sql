-- The names and labels of sessions.

-- +goose Up

ALTER TABLE activity_sessions ADD COLUMN name text, ADD COLUMN metadata jsonb;
COMMENT ON COLUMN activity_sessions.name IS 'Chosen by the client of the worker; null for none.';
COMMENT ON COLUMN activity_sessions.metadata IS 'The labels of the session, texts by name; null for none.';
