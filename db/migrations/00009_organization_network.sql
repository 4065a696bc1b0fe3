-- The network rules of organizations.

-- +goose Up

ALTER TABLE organizations ADD COLUMN network jsonb;
COMMENT ON COLUMN organizations.network IS 'The network rules of all launches of the organization; null for none.';
