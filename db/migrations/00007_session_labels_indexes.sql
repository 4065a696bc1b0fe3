-- Indexes for the filters of the sessions feed. Sessions without a name or labels are not in them. An index of an
-- interrupted run is invalid, so it is built again.

-- +goose NO TRANSACTION

-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS activity_sessions_name;
CREATE INDEX CONCURRENTLY activity_sessions_name ON activity_sessions (organization_id, name, started_at DESC) WHERE name IS NOT NULL;
-- Row-level security does not allow a GIN index for the labels: their operator is not leakproof. So a filter reads the
-- labelled sessions of its organization, in the order of the feed.
DROP INDEX CONCURRENTLY IF EXISTS activity_sessions_labelled;
CREATE INDEX CONCURRENTLY activity_sessions_labelled ON activity_sessions (organization_id, started_at DESC, id DESC) WHERE metadata IS NOT NULL;
