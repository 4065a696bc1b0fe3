-- The client certificates of profiles.

-- +goose Up

ALTER TABLE profiles ADD COLUMN client_certificates jsonb, ADD COLUMN client_certificate_secret bytea;
COMMENT ON COLUMN profiles.client_certificates IS 'The origin, subject and expiry of each client certificate; null for none.';
COMMENT ON COLUMN profiles.client_certificate_secret IS 'The client certificates with their keys, encrypted with this organization, profile and column as associated data; null for none.';
