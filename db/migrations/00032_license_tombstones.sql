-- +goose Up

-- Ends of sessions that nobody knows are kept as slots without a machine, a
-- bounded number of each organization. No other row is in this index.
CREATE INDEX license_slots_tombstones ON license_slots (org_id, id) WHERE machine_id IS NULL;

-- +goose Down
DROP INDEX license_slots_tombstones;
