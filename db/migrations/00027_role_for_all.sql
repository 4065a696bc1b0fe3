-- Who works for all organizations says so by its role, not by a setting: a policy
-- that lets everything pass goes when a statement is planned, while settings were
-- looked up by each statement, for each table.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'svc_all') THEN
        CREATE ROLE svc_all NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- made for another database of this server, just now
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role svc_all is missing, and % may not create it', current_user
            USING HINT = format('As a superuser: CREATE ROLE svc_all NOLOGIN; GRANT svc_app TO svc_all; GRANT svc_all TO %I;', current_user);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT pg_has_role('svc_all', 'svc_app', 'MEMBER') THEN
        GRANT svc_app TO svc_all;
    END IF;
    IF NOT pg_has_role(current_user, 'svc_all', 'MEMBER') THEN
        EXECUTE format('GRANT svc_all TO %I', current_user);
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE PROCEDURE seclude(tenants regclass, org_column name) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenants);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tenants);
    EXECUTE format('CREATE POLICY one_organization ON %s USING (%I = (SELECT nullif(current_setting(''svc.organization'', true), '''')::uuid))',
                   tenants, org_column);
    EXECUTE format('CREATE POLICY all_organizations ON %s TO svc_all USING (true)', tenants);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT tablename FROM pg_policies WHERE schemaname = 'public' AND policyname = 'all_organizations' LOOP
        EXECUTE format('ALTER POLICY all_organizations ON %I TO svc_all USING (true)', p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE PROCEDURE seclude(tenants regclass, org_column name) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenants);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tenants);
    EXECUTE format('CREATE POLICY one_organization ON %s USING (%I = (SELECT nullif(current_setting(''svc.organization'', true), '''')::uuid))',
                   tenants, org_column);
    EXECUTE format('CREATE POLICY all_organizations ON %s USING ((SELECT current_setting(''svc.all_organizations'', true)) = ''on'')', tenants);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT tablename FROM pg_policies WHERE schemaname = 'public' AND policyname = 'all_organizations' LOOP
        EXECUTE format('ALTER POLICY all_organizations ON %I TO public USING ((SELECT current_setting(''svc.all_organizations'', true)) = ''on'')', p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd
