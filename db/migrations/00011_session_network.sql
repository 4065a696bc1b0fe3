-- What the browsers of sessions have transferred and were denied.

-- +goose Up

ALTER TABLE activity_sessions ADD COLUMN connections bigint, ADD COLUMN bytes_sent bigint, ADD COLUMN bytes_received bigint,
	ADD COLUMN denied bigint, ADD COLUMN hosts jsonb;
COMMENT ON COLUMN activity_sessions.connections IS 'As reported with the end, like the next four columns; null before.';
COMMENT ON COLUMN activity_sessions.denied IS 'Denied requests.';
COMMENT ON COLUMN activity_sessions.hosts IS 'The hosts with the most bytes: an array of objects, as in the API.';
