-- What an operator does without SQL: suspend organizations, disable users, hand
-- out links that set a password. All of it is audited. And how many organizations
-- a user made is asked before another one.

-- +goose Up
ALTER TABLE users ADD COLUMN disabled_at timestamptz;
COMMENT ON COLUMN users.disabled_at IS 'when an operator disabled the account: it has no sessions and begins none; null when it is not disabled';

ALTER TABLE auth_tokens ADD COLUMN mailed boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN auth_tokens.mailed IS 'whether only the mailbox has the token, so that using it verifies the address';

ALTER TABLE subscriptions
    ADD COLUMN operator_suspended_at timestamptz,
    DROP COLUMN effective_profile_limit;
ALTER TABLE subscriptions
    ADD COLUMN effective_profile_limit integer GENERATED ALWAYS AS (
        CASE WHEN operator_suspended_at IS NOT NULL THEN 0
             WHEN status = 'suspended' THEN suspended_profile_limit
             ELSE base_profile_limit + additional_profile_limit END) STORED;
COMMENT ON COLUMN subscriptions.operator_suspended_at IS 'when an operator suspended the organization: it launches nothing, whatever it pays; null when it is not suspended';

ALTER TABLE audit_events
    ALTER COLUMN organization_id DROP NOT NULL,
    DROP CONSTRAINT audit_events_actor,
    DROP CONSTRAINT audit_events_actor_type_check,
    ADD CONSTRAINT audit_events_actor_type_check CHECK (actor_type IN ('user', 'key', 'operator', 'system')),
    ADD CONSTRAINT audit_events_actor CHECK ((actor_type IN ('operator', 'system')) = (actor_id IS NULL));
COMMENT ON COLUMN audit_events.organization_id IS 'null for what an operator does to a user: no organization sees it';

CREATE INDEX organizations_created_by ON organizations (created_by) WHERE created_by IS NOT NULL;

-- +goose Down
DROP INDEX organizations_created_by;

DELETE FROM audit_events WHERE organization_id IS NULL;
UPDATE audit_events SET actor_type = 'system' WHERE actor_type = 'operator';
ALTER TABLE audit_events
    ALTER COLUMN organization_id SET NOT NULL,
    DROP CONSTRAINT audit_events_actor,
    DROP CONSTRAINT audit_events_actor_type_check,
    ADD CONSTRAINT audit_events_actor_type_check CHECK (actor_type IN ('user', 'key', 'system')),
    ADD CONSTRAINT audit_events_actor CHECK ((actor_type = 'system') = (actor_id IS NULL));

ALTER TABLE subscriptions DROP COLUMN effective_profile_limit, DROP COLUMN operator_suspended_at;
ALTER TABLE subscriptions
    ADD COLUMN effective_profile_limit integer GENERATED ALWAYS AS (
        CASE status WHEN 'suspended' THEN suspended_profile_limit ELSE base_profile_limit + additional_profile_limit END) STORED;

ALTER TABLE auth_tokens DROP COLUMN mailed;
ALTER TABLE users DROP COLUMN disabled_at;
