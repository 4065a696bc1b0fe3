-- The second wall between organizations: row-level security on every table of
-- theirs. The service works as svc_app, which owns nothing and bypasses nothing.
-- A connection of it sees no row until it has said which organization it acts
-- for, or that it works for all of them.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'svc_app') THEN
        CREATE ROLE svc_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- made for another database of this server, just now
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role svc_app is missing, and % may not create it', current_user
            USING HINT = format('As a superuser: CREATE ROLE svc_app NOLOGIN; GRANT svc_app TO %I;', current_user);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT pg_has_role(current_user, 'svc_app', 'MEMBER') THEN
        EXECUTE format('GRANT svc_app TO %I', current_user);
    END IF;
END $$;
-- +goose StatementEnd

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO svc_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO svc_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO svc_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO svc_app;
REVOKE ALL ON goose_db_version FROM svc_app;

-- seclude puts a table under row-level security by the column that names the
-- organization. The settings are read once a statement, not once a row.
-- +goose StatementBegin
CREATE PROCEDURE seclude(tenants regclass, org_column name) LANGUAGE plpgsql AS $$
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
    c record;
BEGIN
    CALL seclude('organizations', 'id');
    FOR c IN SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
             WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND column_name IN ('organization_id', 'org_id')
    LOOP
        CALL seclude(c.table_name::regclass, c.column_name::name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = 'public' LOOP
        EXECUTE format('DROP POLICY %I ON %I', p.policyname, p.tablename);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', p.tablename);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd
DROP PROCEDURE seclude(regclass, name);
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM svc_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON SEQUENCES FROM svc_app;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM svc_app;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM svc_app;
