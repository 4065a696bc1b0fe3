-- How many requests act on each organization, in the minute and in the hour that
-- run: apiRpmLimit and apiRphLimit are shown against these, and refuse nothing
-- (specification 8). One row for each organization, which all replicas add to.

-- +goose Up
CREATE TABLE api_usage (
    org_id          uuid        PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    minute          timestamptz NOT NULL,
    minute_requests bigint      NOT NULL CHECK (minute_requests >= 0),
    hour            timestamptz NOT NULL,
    hour_requests   bigint      NOT NULL CHECK (hour_requests >= 0)
) WITH (fillfactor = 50);
COMMENT ON COLUMN api_usage.minute IS 'when the minute began that minute_requests are of';
COMMENT ON COLUMN api_usage.hour IS 'when the hour began that hour_requests are of';
CALL seclude('api_usage', 'org_id');

-- +goose Down
DROP TABLE api_usage;
