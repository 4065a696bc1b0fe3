-- Indexes for the filters of the sessions feed. Sessions without a name or labels are not in them. An index of an
-- interrupted run is invalid, so it is built again.

-- +goose NO TRANSACTION

-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS activity_sessions_name;
CREATE INDEX CONCURRENTLY activity_sessions_name ON activity_sessions (organization_id, name, started_at DESC) WHERE name IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS activity_sessions_metadata;
CREATE INDEX CONCURRENTLY activity_sessions_metadata ON activity_sessions USING gin (metadata jsonb_path_ops) WHERE metadata IS NOT NULL;
