-- The profile of a launch whose slot was given up is kept, uncounted, as long as
-- that may turn out to be alive.

-- +goose Up
ALTER TABLE profiles
    ADD COLUMN given_up_at timestamptz,
    ADD CONSTRAINT profiles_given_up CHECK (ephemeral OR given_up_at IS NULL);
COMMENT ON COLUMN profiles.ephemeral IS 'lives as long as one launch: counted unless that was given up, not listed';

-- +goose Down
DELETE FROM profiles WHERE given_up_at IS NOT NULL;
COMMENT ON COLUMN profiles.ephemeral IS 'lives as long as one launch: counted, not listed';
ALTER TABLE profiles DROP CONSTRAINT profiles_given_up, DROP COLUMN given_up_at;
