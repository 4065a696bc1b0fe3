-- The schema after every migration. Written by: go test ./db -run TestSchemaFile -update

CREATE TYPE public.license_end_status AS ENUM (
    'exited',
    'killed'
);

CREATE TYPE public.license_release_reason AS ENUM (
    'ended',
    'omitted',
    'lapsed'
);

CREATE TYPE public.license_slot_state AS ENUM (
    'reserved',
    'running',
    'released'
);

CREATE FUNCTION public.api_key_good(revoked_at timestamp with time zone, expires_at timestamp with time zone, at timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$SELECT revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at)$$;

CREATE FUNCTION public.license_event_id(happened timestamp with time zone) RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT encode(set_byte(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM happened) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        6, 112 + floor(random() * 16)::int), 'hex')::uuid
$$;

CREATE FUNCTION public.license_slots_go() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM license_slots WHERE org_id = OLD.org_id;
    RETURN NULL;
END $$;

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
    EXECUTE format('CREATE POLICY all_organizations ON %s TO svc_all USING (true)', tenants);
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

CREATE TABLE public.api_usage (
    org_id uuid NOT NULL,
    minute timestamp with time zone NOT NULL,
    minute_requests bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    hour_requests bigint NOT NULL,
    CONSTRAINT api_usage_hour_requests_check CHECK ((hour_requests >= 0)),
    CONSTRAINT api_usage_minute_requests_check CHECK ((minute_requests >= 0))
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.api_usage FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.api_usage.minute IS 'when the minute began that minute_requests are of';

COMMENT ON COLUMN public.api_usage.hour IS 'when the hour began that hour_requests are of';

CREATE TABLE public.audit_events (
    id uuid NOT NULL,
    organization_id uuid,
    action text NOT NULL,
    target_id text NOT NULL,
    actor_type text NOT NULL,
    actor_id uuid,
    actor_email text,
    client_address text,
    request_id text,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT audit_events_action_check CHECK (((action ~ '^[a-z][A-Za-z]*\.[a-z][A-Za-z]*$'::text) AND (length(action) <= 64))),
    CONSTRAINT audit_events_actor CHECK (((actor_type = ANY (ARRAY['operator'::text, 'system'::text])) = (actor_id IS NULL))),
    CONSTRAINT audit_events_actor_type_check CHECK ((actor_type = ANY (ARRAY['user'::text, 'key'::text, 'operator'::text, 'system'::text]))),
    CONSTRAINT audit_events_target_id_check CHECK (((length(target_id) >= 1) AND (length(target_id) <= 128)))
);

ALTER TABLE ONLY public.audit_events FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.audit_events IS 'who changed what; no foreign keys, since it outlives what it tells of, an organization''s end included';

COMMENT ON COLUMN public.audit_events.organization_id IS 'null for what an operator does to a user: no organization sees it';

CREATE TABLE public.auth_attempts (
    kind text NOT NULL,
    subject bytea NOT NULL,
    attempts integer NOT NULL,
    blocked_until timestamp with time zone NOT NULL,
    forget_at timestamp with time zone NOT NULL
);

CREATE TABLE public.auth_sessions (
    token_hash text NOT NULL,
    user_id uuid NOT NULL,
    data bytea NOT NULL,
    expiry timestamp with time zone NOT NULL,
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    ip_address text NOT NULL,
    user_agent text NOT NULL
);

CREATE TABLE public.auth_tokens (
    token_hash bytea NOT NULL,
    user_id uuid NOT NULL,
    purpose text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    mailed boolean DEFAULT true NOT NULL,
    CONSTRAINT auth_tokens_purpose CHECK ((purpose = ANY (ARRAY['verifyEmail'::text, 'resetPassword'::text]))),
    CONSTRAINT auth_tokens_token_hash_length CHECK ((length(token_hash) = 32))
);

COMMENT ON COLUMN public.auth_tokens.mailed IS 'whether only the mailbox has the token, so that using it verifies the address';

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

CREATE TABLE public.contact_messages (
    id uuid NOT NULL,
    name text NOT NULL,
    email text NOT NULL,
    company text,
    subject text,
    message text NOT NULL,
    network cidr NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON COLUMN public.contact_messages.network IS 'whom the limit counts: an IPv4 address, or the /64 of an IPv6 one';

CREATE TABLE public.idempotency_keys (
    id bytea NOT NULL,
    fingerprint bytea NOT NULL,
    holder uuid NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    status integer,
    answer bytea,
    CONSTRAINT idempotency_keys_answered CHECK (((status IS NULL) = (answer IS NULL))),
    CONSTRAINT idempotency_keys_fingerprint_check CHECK ((length(fingerprint) = 32)),
    CONSTRAINT idempotency_keys_id_check CHECK ((length(id) = 32))
);

COMMENT ON COLUMN public.idempotency_keys.id IS 'SHA-256 of who sent the key and of the key';

COMMENT ON COLUMN public.idempotency_keys.fingerprint IS 'SHA-256 of the request';

COMMENT ON COLUMN public.idempotency_keys.answer IS 'encrypted, since it may hold a secret that is shown once';

CREATE TABLE public.invitations (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    token_hash bytea NOT NULL,
    invited_by uuid,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    outcome text,
    ended_at timestamp with time zone,
    CONSTRAINT invitations_email_lower CHECK ((email = lower((email COLLATE "C")))),
    CONSTRAINT invitations_ended CHECK (((outcome IS NULL) = (ended_at IS NULL))),
    CONSTRAINT invitations_outcome CHECK ((outcome = ANY (ARRAY['accepted'::text, 'revoked'::text, 'expired'::text]))),
    CONSTRAINT invitations_role CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text]))),
    CONSTRAINT invitations_token_hash_length CHECK ((length(token_hash) = 32))
);

ALTER TABLE ONLY public.invitations FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.invitations.outcome IS 'null while it is open; one that has expired becomes ''expired'' when its address is invited again';

CREATE TABLE public.invoices (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    number text NOT NULL,
    status text NOT NULL,
    currency text NOT NULL,
    subtotal_cents bigint NOT NULL,
    total_cents bigint NOT NULL,
    amount_due_cents bigint NOT NULL,
    lines jsonb NOT NULL,
    period_start timestamp with time zone NOT NULL,
    period_end timestamp with time zone NOT NULL,
    hosted_url text,
    provider text NOT NULL,
    provider_invoice_id text,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT invoices_amount_due_cents_check CHECK ((amount_due_cents >= 0)),
    CONSTRAINT invoices_status_check CHECK ((status = ANY (ARRAY['open'::text, 'paid'::text, 'uncollectible'::text, 'void'::text])))
);

ALTER TABLE ONLY public.invoices FORCE ROW LEVEL SECURITY;

CREATE TABLE public.license_events (
    id uuid DEFAULT public.license_event_id(clock_timestamp()) NOT NULL,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    count integer DEFAULT 1 NOT NULL,
    reason text,
    machine_id text,
    boot_id uuid,
    session_id uuid,
    slot_id uuid,
    profile_id uuid,
    key_id uuid,
    in_use integer,
    max_slots integer,
    previous integer,
    CONSTRAINT license_events_count_check CHECK ((count > 0)),
    CONSTRAINT license_events_kind_check CHECK ((kind = ANY (ARRAY['refused'::text, 'lapsed'::text, 'omitted'::text, 'adopted'::text, 'limitChanged'::text, 'machineDuplicated'::text, 'machineAlone'::text, 'counterRepaired'::text])))
);

ALTER TABLE ONLY public.license_events FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.license_events.previous IS 'the limit before it changed; the count before it was repaired';

CREATE TABLE public.license_late_boots (
    org_id uuid NOT NULL,
    machine_id text NOT NULL,
    boot_id uuid NOT NULL,
    seq bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    alive_since timestamp with time zone
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_late_boots FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_late_boots IS 'boots that reported after another one took their machine over';

COMMENT ON COLUMN public.license_late_boots.since IS 'when it first did, without a long pause since';

COMMENT ON COLUMN public.license_late_boots.alive_since IS 'when it proved to be alive, so that two workers share the machine id';

CREATE TABLE public.license_machines (
    org_id uuid NOT NULL,
    machine_id text NOT NULL,
    boot_id uuid NOT NULL,
    past_boots uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    seq bigint NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    previous_at timestamp with time zone
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_machines FORCE ROW LEVEL SECURITY;

CREATE TABLE public.license_org (
    org_id uuid NOT NULL,
    max_slots integer,
    in_use integer DEFAULT 0 NOT NULL,
    CONSTRAINT license_org_in_use_check CHECK ((in_use >= 0))
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
    state public.license_slot_state NOT NULL,
    launch_id uuid,
    browser_version integer,
    reserved_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    lease_until timestamp with time zone NOT NULL,
    released_at timestamp with time zone,
    release_reason public.license_release_reason,
    ended_at timestamp with time zone,
    end_status public.license_end_status,
    end_reason text,
    first_heartbeat_at timestamp with time zone,
    CONSTRAINT license_slots_released CHECK (((state = 'released'::public.license_slot_state) = (released_at IS NOT NULL)))
)
WITH (fillfactor='70');

ALTER TABLE ONLY public.license_slots FORCE ROW LEVEL SECURITY;

CREATE TABLE public.mail_outbox (
    id uuid NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    sealed_text bytea,
    state text DEFAULT 'queued'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT mail_outbox_finished CHECK ((((state = 'queued'::text) = (finished_at IS NULL)) AND ((state = 'queued'::text) = (sealed_text IS NOT NULL)))),
    CONSTRAINT mail_outbox_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'sent'::text, 'dead'::text])))
);

COMMENT ON COLUMN public.mail_outbox.sealed_text IS 'encrypted, since it may carry a token; wiped once it was sent or given up';

COMMENT ON COLUMN public.mail_outbox.due_at IS 'when to try; while one tries, when another one may';

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

CREATE TABLE public.payment_events (
    id text NOT NULL,
    kind text NOT NULL,
    received_at timestamp with time zone NOT NULL
);

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
    given_up_at timestamp with time zone,
    CONSTRAINT profiles_browser_version_check CHECK ((browser_version > 0)),
    CONSTRAINT profiles_given_up CHECK ((ephemeral OR (given_up_at IS NULL))),
    CONSTRAINT profiles_version_known CHECK ((ephemeral OR (browser_version IS NOT NULL)))
);

ALTER TABLE ONLY public.profiles FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.profiles.settings IS 'the other settings, under the names they have in the API; never a secret';

COMMENT ON COLUMN public.profiles.proxy_secret IS 'the proxy password, sealed for this organization and profile';

COMMENT ON COLUMN public.profiles.ephemeral IS 'lives as long as one launch: counted unless that was given up, not listed';

CREATE TABLE public.subscription_add_ons (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    slug text NOT NULL,
    name text NOT NULL,
    limit_name text NOT NULL,
    amount integer NOT NULL,
    quantity integer NOT NULL,
    price_cents integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT subscription_add_ons_amount_check CHECK ((amount > 0)),
    CONSTRAINT subscription_add_ons_limit_name_check CHECK ((limit_name = ANY (ARRAY['profileLimit'::text, 'memberLimit'::text, 'apiRpmLimit'::text, 'apiRphLimit'::text]))),
    CONSTRAINT subscription_add_ons_price_cents_check CHECK ((price_cents >= 0)),
    CONSTRAINT subscription_add_ons_quantity_check CHECK ((quantity > 0))
);

ALTER TABLE ONLY public.subscription_add_ons FORCE ROW LEVEL SECURITY;

CREATE TABLE public.subscriptions (
    organization_id uuid NOT NULL,
    plan_id uuid NOT NULL,
    base_profile_limit integer,
    additional_profile_limit integer DEFAULT 0 NOT NULL,
    base_member_limit integer,
    additional_member_limit integer DEFAULT 0 NOT NULL,
    base_api_rpm_limit integer,
    additional_api_rpm_limit integer DEFAULT 0 NOT NULL,
    base_api_rph_limit integer,
    additional_api_rph_limit integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    price_cents integer DEFAULT 0 NOT NULL,
    currency text DEFAULT 'usd'::text NOT NULL,
    "interval" text DEFAULT 'month'::text NOT NULL,
    period_anchor timestamp with time zone,
    current_period_start timestamp with time zone,
    current_period_end timestamp with time zone,
    cancel_at_period_end boolean DEFAULT false NOT NULL,
    credit_cents bigint DEFAULT 0 NOT NULL,
    last_invoice integer DEFAULT 0 NOT NULL,
    provider text,
    provider_customer_id text,
    provider_subscription_id text,
    provider_checkout_id text,
    revision bigint DEFAULT 0 NOT NULL,
    changing_until timestamp with time zone,
    suspended_profile_limit integer,
    suspended_member_limit integer,
    suspended_api_rpm_limit integer,
    suspended_api_rph_limit integer,
    effective_member_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_member_limit
    ELSE (base_member_limit + additional_member_limit)
END) STORED,
    effective_api_rpm_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_api_rpm_limit
    ELSE (base_api_rpm_limit + additional_api_rpm_limit)
END) STORED,
    effective_api_rph_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_api_rph_limit
    ELSE (base_api_rph_limit + additional_api_rph_limit)
END) STORED,
    operator_suspended_at timestamp with time zone,
    effective_profile_limit integer GENERATED ALWAYS AS (
CASE
    WHEN (operator_suspended_at IS NOT NULL) THEN 0
    WHEN (status = 'suspended'::text) THEN suspended_profile_limit
    ELSE (base_profile_limit + additional_profile_limit)
END) STORED,
    CONSTRAINT subscriptions_credit_cents_check CHECK ((credit_cents >= 0)),
    CONSTRAINT subscriptions_currency_check CHECK ((currency ~ '^[a-z]{3}$'::text)),
    CONSTRAINT subscriptions_interval_check CHECK (("interval" = ANY (ARRAY['month'::text, 'year'::text]))),
    CONSTRAINT subscriptions_period CHECK ((num_nulls(provider, period_anchor, current_period_start, current_period_end) = ANY (ARRAY[0, 4]))),
    CONSTRAINT subscriptions_price_cents_check CHECK ((price_cents >= 0)),
    CONSTRAINT subscriptions_provider_check CHECK ((provider = ANY (ARRAY['manual'::text, 'stripe'::text]))),
    CONSTRAINT subscriptions_status CHECK ((status = ANY (ARRAY['active'::text, 'past_due'::text, 'suspended'::text, 'canceled'::text])))
);

ALTER TABLE ONLY public.subscriptions FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.subscriptions.period_anchor IS 'the begin of the first period: all others begin on its day of the month, or the last one';

COMMENT ON COLUMN public.subscriptions.credit_cents IS 'what is left of credits, of manual billing; the next invoices use it up';

COMMENT ON COLUMN public.subscriptions.last_invoice IS 'the number of the last invoice of manual billing';

COMMENT ON COLUMN public.subscriptions.provider_checkout_id IS 'the last page to pay at: there is never more than one';

COMMENT ON COLUMN public.subscriptions.revision IS 'grows with each change: who read another one has read something old';

COMMENT ON COLUMN public.subscriptions.changing_until IS 'a change is under way, and nobody else may begin one before this';

COMMENT ON COLUMN public.subscriptions.suspended_profile_limit IS 'what counts while it is suspended: the limit of the free plan then';

COMMENT ON COLUMN public.subscriptions.operator_suspended_at IS 'when an operator suspended the organization: it launches nothing, whatever it pays; null when it is not suspended';

CREATE TABLE public.user_identities (
    issuer text NOT NULL,
    subject text NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE public.users (
    id uuid NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    password_hash text,
    created_at timestamp with time zone NOT NULL,
    last_organization_id uuid,
    email_verified_at timestamp with time zone,
    credential_version integer DEFAULT 0 NOT NULL,
    disabled_at timestamp with time zone,
    CONSTRAINT users_email_lower CHECK ((email = lower((email COLLATE "C"))))
);

COMMENT ON COLUMN public.users.disabled_at IS 'when an operator disabled the account: it has no sessions and begins none; null when it is not disabled';

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_usage
    ADD CONSTRAINT api_usage_pkey PRIMARY KEY (org_id);

ALTER TABLE ONLY public.audit_events
    ADD CONSTRAINT audit_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_attempts
    ADD CONSTRAINT auth_attempts_pkey PRIMARY KEY (kind, subject);

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_id_key UNIQUE (id);

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.auth_tokens
    ADD CONSTRAINT auth_tokens_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.chromium_releases
    ADD CONSTRAINT chromium_releases_build UNIQUE (version, os, arch);

ALTER TABLE ONLY public.chromium_releases
    ADD CONSTRAINT chromium_releases_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.contact_messages
    ADD CONSTRAINT contact_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_number UNIQUE (organization_id, provider, number);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_provider_invoice_id_key UNIQUE (provider_invoice_id);

ALTER TABLE ONLY public.license_events
    ADD CONSTRAINT license_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.license_late_boots
    ADD CONSTRAINT license_late_boots_pkey PRIMARY KEY (org_id, machine_id, boot_id);

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_pkey PRIMARY KEY (org_id, machine_id);

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_pkey PRIMARY KEY (org_id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_session UNIQUE (org_id, session_id);

ALTER TABLE ONLY public.mail_outbox
    ADD CONSTRAINT mail_outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (organization_id, user_id);

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.payment_events
    ADD CONSTRAINT payment_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.subscription_add_ons
    ADD CONSTRAINT subscription_add_ons_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.subscription_add_ons
    ADD CONSTRAINT subscription_add_ons_slug UNIQUE (organization_id, slug);

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_provider_subscription_id_key UNIQUE (provider_subscription_id);

ALTER TABLE ONLY public.user_identities
    ADD CONSTRAINT user_identities_pkey PRIMARY KEY (issuer, subject);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_email_key UNIQUE (email);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

CREATE INDEX activity_sessions_feed ON public.activity_sessions USING btree (organization_id, started_at DESC, id DESC);

CREATE INDEX activity_sessions_profile ON public.activity_sessions USING btree (organization_id, profile_id, started_at DESC);

CREATE INDEX activity_sessions_started_at ON public.activity_sessions USING btree (started_at);

CREATE INDEX api_keys_organization_id_idx ON public.api_keys USING btree (organization_id) WHERE (revoked_at IS NULL);

CREATE INDEX audit_events_actor ON public.audit_events USING btree (organization_id, actor_id, created_at, id);

CREATE INDEX audit_events_list ON public.audit_events USING btree (organization_id, created_at, id);

CREATE INDEX audit_events_target ON public.audit_events USING btree (organization_id, target_id, created_at, id);

CREATE INDEX auth_attempts_forget_at_idx ON public.auth_attempts USING btree (forget_at);

CREATE INDEX auth_sessions_expiry_idx ON public.auth_sessions USING btree (expiry);

CREATE INDEX auth_sessions_user_id_idx ON public.auth_sessions USING btree (user_id);

CREATE INDEX auth_tokens_expires_at_idx ON public.auth_tokens USING btree (expires_at);

CREATE INDEX auth_tokens_user_id_idx ON public.auth_tokens USING btree (user_id);

CREATE INDEX contact_messages_network ON public.contact_messages USING btree (network, created_at);

CREATE INDEX idempotency_keys_expires_at ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX invitations_invited_by ON public.invitations USING btree (invited_by) WHERE (invited_by IS NOT NULL);

CREATE UNIQUE INDEX invitations_open ON public.invitations USING btree (organization_id, email) WHERE (outcome IS NULL);

CREATE INDEX invoices_list_idx ON public.invoices USING btree (organization_id, created_at, id);

CREATE INDEX license_events_list ON public.license_events USING btree (org_id, at, id);

CREATE INDEX license_events_machine ON public.license_events USING btree (org_id, machine_id, at, id) WHERE (machine_id IS NOT NULL);

CREATE INDEX license_events_session ON public.license_events USING btree (org_id, session_id) WHERE (session_id IS NOT NULL);

CREATE INDEX license_slots_live ON public.license_slots USING btree (org_id, machine_id) WHERE (released_at IS NULL);

CREATE INDEX license_slots_tombstones ON public.license_slots USING btree (org_id, id) WHERE (machine_id IS NULL);

CREATE INDEX mail_outbox_due ON public.mail_outbox USING btree (due_at) WHERE (state = 'queued'::text);

CREATE INDEX memberships_user_id_idx ON public.memberships USING btree (user_id);

CREATE INDEX organizations_created_by ON public.organizations USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX payment_events_received_at_idx ON public.payment_events USING btree (received_at);

CREATE INDEX profiles_created_by ON public.profiles USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX profiles_ephemeral ON public.profiles USING btree (organization_id) WHERE ephemeral;

CREATE INDEX profiles_list ON public.profiles USING btree (organization_id, created_at, id) WHERE (NOT ephemeral);

CREATE INDEX profiles_tags ON public.profiles USING gin (tags) WHERE (NOT ephemeral);

CREATE INDEX subscriptions_due_idx ON public.subscriptions USING btree (current_period_end) WHERE (current_period_end IS NOT NULL);

CREATE INDEX subscriptions_provider_checkout_id_idx ON public.subscriptions USING btree (provider_checkout_id) WHERE (provider_checkout_id IS NOT NULL);

CREATE INDEX user_identities_user_id_idx ON public.user_identities USING btree (user_id);

CREATE TRIGGER license_slots_go AFTER DELETE ON public.license_org FOR EACH ROW EXECUTE FUNCTION public.license_slots_go();

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_usage
    ADD CONSTRAINT api_usage_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.auth_tokens
    ADD CONSTRAINT auth_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_events
    ADD CONSTRAINT license_events_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_late_boots
    ADD CONSTRAINT license_late_boots_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

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

ALTER TABLE ONLY public.subscription_add_ons
    ADD CONSTRAINT subscription_add_ons_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.subscriptions(organization_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES public.plans(id);

ALTER TABLE ONLY public.user_identities
    ADD CONSTRAINT user_identities_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_last_organization_id_fkey FOREIGN KEY (last_organization_id) REFERENCES public.organizations(id) ON DELETE SET NULL;

ALTER TABLE public.activity_sessions ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_organizations ON public.activity_sessions TO svc_all USING (true);

CREATE POLICY all_organizations ON public.api_keys TO svc_all USING (true);

CREATE POLICY all_organizations ON public.api_usage TO svc_all USING (true);

CREATE POLICY all_organizations ON public.audit_events TO svc_all USING (true);

CREATE POLICY all_organizations ON public.invitations TO svc_all USING (true);

CREATE POLICY all_organizations ON public.invoices TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_events TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_late_boots TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_machines TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_org TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_slots TO svc_all USING (true);

CREATE POLICY all_organizations ON public.memberships TO svc_all USING (true);

CREATE POLICY all_organizations ON public.organizations TO svc_all USING (true);

CREATE POLICY all_organizations ON public.profiles TO svc_all USING (true);

CREATE POLICY all_organizations ON public.subscription_add_ons TO svc_all USING (true);

CREATE POLICY all_organizations ON public.subscriptions TO svc_all USING (true);

ALTER TABLE public.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.api_usage ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invitations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invoices ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_late_boots ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_org ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_slots ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.memberships ENABLE ROW LEVEL SECURITY;

CREATE POLICY one_organization ON public.activity_sessions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.api_keys USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.api_usage USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.audit_events USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.invitations USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.invoices USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_events USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_late_boots USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_machines USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_org USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_slots USING ((org_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.memberships USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.organizations USING ((id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profiles USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.subscription_add_ons USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.subscriptions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

ALTER TABLE public.organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profiles ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subscription_add_ons ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subscriptions ENABLE ROW LEVEL SECURITY;
