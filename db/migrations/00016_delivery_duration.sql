-- How long the attempts of webhook deliveries take.

-- +goose Up

ALTER TABLE webhook_deliveries ADD COLUMN last_duration_ms integer;
COMMENT ON COLUMN webhook_deliveries.last_duration_ms IS 'Of the last attempt; null if there was none, or if an earlier program made it.';
