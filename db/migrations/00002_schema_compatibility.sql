-- From here on, a released migration is never edited, and a program runs on the schema
-- of the next release (openapi/operations/UPGRADE.md).

-- +goose Up

CREATE TABLE schema_compatibility (
    one_row        boolean PRIMARY KEY DEFAULT true CHECK (one_row),
    oldest_version bigint  NOT NULL
);
COMMENT ON TABLE schema_compatibility IS 'Which older programs run on this schema. It has one row.';
COMMENT ON COLUMN schema_compatibility.oldest_version IS 'The oldest compatible program: a program whose newest migration is lower refuses to start. A migration that removes or changes what such programs use raises it.';

INSERT INTO schema_compatibility (oldest_version) VALUES (1);
REVOKE INSERT, UPDATE, DELETE ON schema_compatibility FROM svc_app;
