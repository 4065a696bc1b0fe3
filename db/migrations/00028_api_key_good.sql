-- +goose Up

-- Which organization keys open something (specification 5.3), its only definition.
CREATE FUNCTION api_key_good(revoked_at timestamptz, expires_at timestamptz, at timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at)';

-- +goose Down
DROP FUNCTION api_key_good(timestamptz, timestamptz, timestamptz);
