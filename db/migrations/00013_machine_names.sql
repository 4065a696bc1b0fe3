-- The names of machines.

-- +goose Up

ALTER TABLE license_machines ADD COLUMN name text CONSTRAINT license_machines_name_length CHECK (length(name) BETWEEN 1 AND 128);
COMMENT ON COLUMN license_machines.name IS 'The name that a person gave the machine in the dashboard. Null if none.';
