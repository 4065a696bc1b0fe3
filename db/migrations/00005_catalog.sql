-- The browser builds that workers can install. The archives are in a store of
-- their own; this says what they are.

-- +goose Up
CREATE TABLE chromium_releases (
    id           uuid        PRIMARY KEY,
    version      text        NOT NULL CHECK (version ~ '^[0-9]{1,4}(\.[0-9]{1,5}){3}$'),
    major        integer     NOT NULL GENERATED ALWAYS AS (split_part(version, '.', 1)::integer) STORED,
    channel      text        NOT NULL CHECK (channel IN ('stable', 'beta', 'dev', 'canary')),
    os           text        NOT NULL CHECK (os IN ('linux', 'macos', 'windows')),
    arch         text        NOT NULL CHECK (arch IN ('x86_64', 'arm64')),
    size_bytes   bigint      NOT NULL CHECK (size_bytes > 0),
    sha256       text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    object_key   text        NOT NULL,
    published_at timestamptz NOT NULL,
    CONSTRAINT chromium_releases_build UNIQUE (version, os, arch)
);

-- +goose Down
DROP TABLE chromium_releases;
