-- A subscription that is not paid for is suspended: what was bought stays as it
-- was bought, and until it is paid for what counts is other limits.

-- +goose Up
ALTER TABLE subscriptions
    DROP CONSTRAINT subscriptions_status,
    ADD CONSTRAINT subscriptions_status CHECK (status IN ('active', 'past_due', 'suspended', 'canceled')),
    ADD COLUMN suspended_profile_limit integer,
    ADD COLUMN suspended_member_limit  integer,
    ADD COLUMN suspended_api_rpm_limit integer,
    ADD COLUMN suspended_api_rph_limit integer,
    DROP COLUMN effective_profile_limit,
    DROP COLUMN effective_member_limit,
    DROP COLUMN effective_api_rpm_limit,
    DROP COLUMN effective_api_rph_limit;

ALTER TABLE subscriptions
    ADD COLUMN effective_profile_limit integer GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_profile_limit ELSE base_profile_limit + additional_profile_limit END) STORED,
    ADD COLUMN effective_member_limit integer GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_member_limit ELSE base_member_limit + additional_member_limit END) STORED,
    ADD COLUMN effective_api_rpm_limit integer GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_api_rpm_limit ELSE base_api_rpm_limit + additional_api_rpm_limit END) STORED,
    ADD COLUMN effective_api_rph_limit integer GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_api_rph_limit ELSE base_api_rph_limit + additional_api_rph_limit END) STORED;
COMMENT ON COLUMN subscriptions.suspended_profile_limit IS 'what counts while it is suspended: the limit of the free plan then';

CREATE INDEX subscriptions_provider_checkout_id_idx ON subscriptions (provider_checkout_id) WHERE provider_checkout_id IS NOT NULL;

-- +goose Down
DROP INDEX subscriptions_provider_checkout_id_idx;
UPDATE subscriptions SET status = 'past_due' WHERE status = 'suspended';
ALTER TABLE subscriptions
    DROP CONSTRAINT subscriptions_status,
    ADD CONSTRAINT subscriptions_status CHECK (status IN ('active', 'past_due', 'canceled')),
    DROP COLUMN effective_profile_limit, DROP COLUMN effective_member_limit,
    DROP COLUMN effective_api_rpm_limit, DROP COLUMN effective_api_rph_limit,
    DROP COLUMN suspended_profile_limit, DROP COLUMN suspended_member_limit,
    DROP COLUMN suspended_api_rpm_limit, DROP COLUMN suspended_api_rph_limit;
ALTER TABLE subscriptions
    ADD COLUMN effective_profile_limit integer GENERATED ALWAYS AS (base_profile_limit + additional_profile_limit) STORED,
    ADD COLUMN effective_member_limit  integer GENERATED ALWAYS AS (base_member_limit + additional_member_limit) STORED,
    ADD COLUMN effective_api_rpm_limit integer GENERATED ALWAYS AS (base_api_rpm_limit + additional_api_rpm_limit) STORED,
    ADD COLUMN effective_api_rph_limit integer GENERATED ALWAYS AS (base_api_rph_limit + additional_api_rph_limit) STORED;
