-- The schema after every migration. Written by: go test ./db -run TestSchemaFile -update

CREATE FUNCTION public.license_stale(lease_until timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$SELECT lease_until <= now()$$;

CREATE PROCEDURE public.seclude(IN tenants regclass, IN org_column name)
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenants);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tenants);
    EXECUTE format('CREATE POLICY one_organization ON %s USING (%I = (SELECT nullif(current_setting(''svc.organization'', true), '''')::uuid))',
                   tenants, org_column);
    EXECUTE format('CREATE POLICY all_organizations ON %s USING ((SELECT current_setting(''svc.all_organizations'', true)) = ''on'')', tenants);
END $$;

CREATE TABLE public.activity_sessions (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    profile_name text NOT NULL,
    machine_id text NOT NULL,
    launch_id uuid NOT NULL,
    browser_version integer NOT NULL,
    status text NOT NULL,
    end_reason text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT activity_sessions_browser_version_check CHECK ((browser_version > 0)),
    CONSTRAINT activity_sessions_end CHECK (((status = 'running'::text) = (ended_at IS NULL))),
    CONSTRAINT activity_sessions_status_check CHECK ((status = ANY (ARRAY['running'::text, 'exited'::text, 'killed'::text])))
);

ALTER TABLE ONLY public.activity_sessions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.activity_sessions IS 'one row per session that a worker reported; profile_id has no foreign key, since history outlives profiles';

CREATE TABLE public.api_keys (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL,
    key_hash bytea NOT NULL,
    prefix text NOT NULL,
    last_four text NOT NULL,
    created_by uuid,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT api_keys_key_hash_length CHECK ((length(key_hash) = 32))
);

ALTER TABLE ONLY public.api_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE public.auth_sessions (
    token_hash text NOT NULL,
    user_id uuid NOT NULL,
    data bytea NOT NULL,
    expiry timestamp with time zone NOT NULL
);

CREATE TABLE public.chromium_releases (
    id uuid NOT NULL,
    version text NOT NULL,
    major integer GENERATED ALWAYS AS ((split_part(version, '.'::text, 1))::integer) STORED NOT NULL,
    channel text NOT NULL,
    os text NOT NULL,
    arch text NOT NULL,
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    object_key text NOT NULL,
    published_at timestamp with time zone NOT NULL,
    CONSTRAINT chromium_releases_arch_check CHECK ((arch = ANY (ARRAY['x86_64'::text, 'arm64'::text]))),
    CONSTRAINT chromium_releases_channel_check CHECK ((channel = ANY (ARRAY['stable'::text, 'beta'::text, 'dev'::text, 'canary'::text]))),
    CONSTRAINT chromium_releases_os_check CHECK ((os = ANY (ARRAY['linux'::text, 'macos'::text, 'windows'::text]))),
    CONSTRAINT chromium_releases_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT chromium_releases_size_bytes_check CHECK ((size_bytes > 0)),
    CONSTRAINT chromium_releases_version_check CHECK ((version ~ '^[0-9]{1,4}(\.[0-9]{1,5}){3}$'::text))
);

CREATE TABLE public.license_machines (
    org_id uuid NOT NULL,
    machine_id text NOT NULL,
    boot_id uuid NOT NULL,
    past_boots uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    seq bigint NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_machines FORCE ROW LEVEL SECURITY;

CREATE TABLE public.license_org (
    org_id uuid NOT NULL,
    max_slots integer,
    in_use integer DEFAULT 0 NOT NULL,
    CONSTRAINT license_org_in_use_check CHECK ((in_use >= 0)),
    CONSTRAINT license_org_max_slots_check CHECK ((max_slots >= 0))
)
WITH (fillfactor='10');

ALTER TABLE ONLY public.license_org FORCE ROW LEVEL SECURITY;

CREATE TABLE public.license_slots (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    profile_id uuid,
    key_id uuid,
    session_id uuid NOT NULL,
    machine_id text,
    boot_id uuid,
    seq bigint DEFAULT 0 NOT NULL,
    state text NOT NULL,
    launch_id uuid,
    browser_version integer,
    reserved_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    lease_until timestamp with time zone NOT NULL,
    released_at timestamp with time zone,
    release_reason text,
    ended_at timestamp with time zone,
    end_status text,
    end_reason text,
    CONSTRAINT license_slots_end_status_check CHECK ((end_status = ANY (ARRAY['exited'::text, 'killed'::text]))),
    CONSTRAINT license_slots_owned CHECK (((state = 'released'::text) OR ((machine_id IS NOT NULL) AND (boot_id IS NOT NULL)))),
    CONSTRAINT license_slots_release_reason_check CHECK ((release_reason = ANY (ARRAY['ended'::text, 'omitted'::text, 'lapsed'::text]))),
    CONSTRAINT license_slots_released CHECK ((((state = 'released'::text) = (released_at IS NOT NULL)) AND (num_nulls(released_at, release_reason, ended_at, end_status, end_reason) = ANY (ARRAY[0, 5])))),
    CONSTRAINT license_slots_started CHECK (((state <> 'running'::text) OR (num_nulls(profile_id, launch_id, browser_version, started_at) = 0))),
    CONSTRAINT license_slots_state_check CHECK ((state = ANY (ARRAY['reserved'::text, 'running'::text, 'released'::text])))
)
WITH (fillfactor='70');

ALTER TABLE ONLY public.license_slots FORCE ROW LEVEL SECURITY;

CREATE TABLE public.memberships (
    organization_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT memberships_role CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text])))
);

ALTER TABLE ONLY public.memberships FORCE ROW LEVEL SECURITY;

CREATE TABLE public.organizations (
    id uuid NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by uuid
);

ALTER TABLE ONLY public.organizations FORCE ROW LEVEL SECURITY;

CREATE TABLE public.plans (
    id uuid NOT NULL,
    slug text NOT NULL,
    name text NOT NULL,
    price_cents integer NOT NULL,
    currency text NOT NULL,
    "interval" text NOT NULL,
    profile_limit integer,
    member_limit integer,
    api_rpm_limit integer,
    api_rph_limit integer,
    add_ons jsonb DEFAULT '[]'::jsonb NOT NULL,
    "position" integer NOT NULL,
    CONSTRAINT plans_api_rph_limit_check CHECK ((api_rph_limit >= 0)),
    CONSTRAINT plans_api_rpm_limit_check CHECK ((api_rpm_limit >= 0)),
    CONSTRAINT plans_currency_check CHECK ((currency ~ '^[a-z]{3}$'::text)),
    CONSTRAINT plans_interval_check CHECK (("interval" = ANY (ARRAY['month'::text, 'year'::text]))),
    CONSTRAINT plans_member_limit_check CHECK ((member_limit >= 0)),
    CONSTRAINT plans_price_cents_check CHECK ((price_cents >= 0)),
    CONSTRAINT plans_profile_limit_check CHECK ((profile_limit >= 0))
);

CREATE TABLE public.profiles (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL,
    notes text DEFAULT ''::text NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    browser_version integer,
    os text,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    proxy_secret bytea,
    persist boolean DEFAULT false NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    ephemeral boolean DEFAULT false NOT NULL,
    last_used_at timestamp with time zone,
    created_by uuid,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT profiles_browser_version_check CHECK ((browser_version > 0)),
    CONSTRAINT profiles_version_known CHECK ((ephemeral OR (browser_version IS NOT NULL)))
);

ALTER TABLE ONLY public.profiles FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.profiles.settings IS 'the other settings, under the names they have in the API; never a secret';

COMMENT ON COLUMN public.profiles.proxy_secret IS 'the proxy password, sealed for this organization and profile';

COMMENT ON COLUMN public.profiles.ephemeral IS 'lives as long as one launch: counted, not listed';

CREATE TABLE public.subscriptions (
    organization_id uuid NOT NULL,
    plan_id uuid NOT NULL,
    base_profile_limit integer,
    additional_profile_limit integer DEFAULT 0 NOT NULL,
    effective_profile_limit integer GENERATED ALWAYS AS ((base_profile_limit + additional_profile_limit)) STORED,
    base_member_limit integer,
    additional_member_limit integer DEFAULT 0 NOT NULL,
    effective_member_limit integer GENERATED ALWAYS AS ((base_member_limit + additional_member_limit)) STORED,
    base_api_rpm_limit integer,
    additional_api_rpm_limit integer DEFAULT 0 NOT NULL,
    effective_api_rpm_limit integer GENERATED ALWAYS AS ((base_api_rpm_limit + additional_api_rpm_limit)) STORED,
    base_api_rph_limit integer,
    additional_api_rph_limit integer DEFAULT 0 NOT NULL,
    effective_api_rph_limit integer GENERATED ALWAYS AS ((base_api_rph_limit + additional_api_rph_limit)) STORED,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.subscriptions FORCE ROW LEVEL SECURITY;

CREATE TABLE public.users (
    id uuid NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    password_hash text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_organization_id uuid,
    CONSTRAINT users_email_lower CHECK ((email = lower((email COLLATE "C"))))
);

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.chromium_releases
    ADD CONSTRAINT chromium_releases_build UNIQUE (version, os, arch);

ALTER TABLE ONLY public.chromium_releases
    ADD CONSTRAINT chromium_releases_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_pkey PRIMARY KEY (org_id, machine_id);

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_pkey PRIMARY KEY (org_id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_session UNIQUE (org_id, session_id);

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (organization_id, user_id);

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_email_key UNIQUE (email);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

CREATE INDEX activity_sessions_feed ON public.activity_sessions USING btree (organization_id, started_at DESC, id DESC);

CREATE INDEX activity_sessions_profile ON public.activity_sessions USING btree (organization_id, profile_id, started_at DESC);

CREATE INDEX api_keys_organization_id_idx ON public.api_keys USING btree (organization_id) WHERE (revoked_at IS NULL);

CREATE INDEX auth_sessions_expiry_idx ON public.auth_sessions USING btree (expiry);

CREATE INDEX auth_sessions_user_id_idx ON public.auth_sessions USING btree (user_id);

CREATE INDEX license_slots_live ON public.license_slots USING btree (org_id, machine_id) WHERE (released_at IS NULL);

CREATE INDEX memberships_user_id_idx ON public.memberships USING btree (user_id);

CREATE INDEX profiles_created_by ON public.profiles USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX profiles_ephemeral ON public.profiles USING btree (organization_id) WHERE ephemeral;

CREATE INDEX profiles_list ON public.profiles USING btree (organization_id, created_at, id) WHERE (NOT ephemeral);

CREATE INDEX profiles_tags ON public.profiles USING gin (tags) WHERE (NOT ephemeral);

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES public.plans(id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_last_organization_id_fkey FOREIGN KEY (last_organization_id) REFERENCES public.organizations(id) ON DELETE SET NULL;

ALTER TABLE public.activity_sessions ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_organizations ON public.activity_sessions USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.api_keys USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.license_machines USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.license_org USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.license_slots USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.memberships USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.organizations USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.profiles USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

CREATE POLICY all_organizations ON public.subscriptions USING ((( SELECT current_setting('svc.all_organizations'::text, true) AS current_setting) = 'on'::text));

ALTER TABLE public.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_org ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_slots ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.memberships ENABLE ROW LEVEL SECURITY;

CREATE POLICY one_organization ON public.activity_sessions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.api_keys USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_machines USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_org USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_slots USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.memberships USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.organizations USING ((id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profiles USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.subscriptions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

ALTER TABLE public.organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profiles ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subscriptions ENABLE ROW LEVEL SECURITY;
