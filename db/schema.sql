-- The schema after every migration. Written by: go test ./db -run TestSchemaFile -update

CREATE TYPE public.license_end_status AS ENUM (
    'exited',
    'killed'
);

COMMENT ON TYPE public.license_end_status IS 'exited: the browser ended by itself. killed: the worker ended it.';

CREATE DOMAIN public.license_limit AS integer
	CONSTRAINT license_limit_not_negative CHECK ((VALUE >= 0));

COMMENT ON DOMAIN public.license_limit IS 'A limit on concurrent sessions. Null means unlimited.';

CREATE TYPE public.license_release_reason AS ENUM (
    'ended',
    'omitted',
    'lapsed'
);

COMMENT ON TYPE public.license_release_reason IS 'ended: the worker reported the end. omitted: the worker''s heartbeat no longer listed the session. lapsed: the lease expired.';

CREATE TYPE public.license_slot_state AS ENUM (
    'reserved',
    'running',
    'released'
);

COMMENT ON TYPE public.license_slot_state IS 'reserved: authorized, not started yet. running: the browser started. released: ended, no longer counted.';

CREATE FUNCTION public.api_key_valid(revoked_at timestamp with time zone, expires_at timestamp with time zone, at timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$SELECT revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at)$$;

COMMENT ON FUNCTION public.api_key_valid(revoked_at timestamp with time zone, expires_at timestamp with time zone, at timestamp with time zone) IS 'Reports whether an organization key is accepted at the given time (specification 5.3). The only definition of this rule.';

CREATE FUNCTION public.cascade_delete_slots() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM license_slots WHERE organization_id = OLD.organization_id;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.cascade_delete_slots() IS 'Deletes the slots of an organization whose license_org row is deleted, in place of a foreign key.';

CREATE FUNCTION public.delete_events() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM events WHERE organization_id = OLD.id;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.delete_events() IS 'Deletes the events of a deleted organization, in place of a foreign key.';

CREATE FUNCTION public.delete_profile_data() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM profile_data WHERE organization_id = OLD.organization_id AND profile_id = OLD.id;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.delete_profile_data() IS 'Deletes the versions of a deleted profile''s data, in place of a foreign key.';

CREATE PROCEDURE public.enable_tenant_rls(IN tenant_table regclass, IN organization_column name)
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY one_organization ON %s USING (%I = (SELECT nullif(current_setting(''svc.organization'', true), '''')::uuid))',
                   tenant_table, organization_column);
    EXECUTE format('CREATE POLICY all_organizations ON %s TO svc_all USING (true)', tenant_table);
END $$;

COMMENT ON PROCEDURE public.enable_tenant_rls(IN tenant_table regclass, IN organization_column name) IS 'Enables row-level security on a table of the organizations: svc_app sees the rows of the organization in the setting svc.organization, svc_all sees all rows. Call it for each new table with an organization_id.';

CREATE FUNCTION public.event_time(at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

COMMENT ON FUNCTION public.event_time(at timestamp with time zone) IS 'Returns a time as RFC 3339 in UTC, as in the API.';

CREATE FUNCTION public.event_wanted(organization uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM webhook_endpoints w WHERE w.organization_id = organization AND w.enabled)
        OR EXISTS (SELECT FROM event_readers r WHERE r.organization_id = organization AND r.read_until > now())
$$;

COMMENT ON FUNCTION public.event_wanted(organization uuid) IS 'Reports whether events of the organization are recorded.';

CREATE FUNCTION public.forget_secret_profile() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE secrets SET profile_ids = array_remove(profile_ids, OLD.id)
    WHERE organization_id = OLD.organization_id AND OLD.id = ANY (profile_ids);
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.forget_secret_profile() IS 'Removes a deleted profile from the secrets of its organization. A secret that only this profile could use remains without profiles.';

CREATE FUNCTION public.insert_event(organization uuid, type text, subject text, data jsonb) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO events (id, organization_id, type, subject, data, created_at)
    SELECT license_event_id(at), organization, type, subject, data, at FROM clock_timestamp() AS at
$$;

COMMENT ON FUNCTION public.insert_event(organization uuid, type text, subject text, data jsonb) IS 'Records an event. The caller checks event_wanted before it builds the data.';

CREATE FUNCTION public.license_event_id(happened timestamp with time zone) RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT encode(set_byte(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM happened) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        6, 112 + floor(random() * 16)::int), 'hex')::uuid
$$;

COMMENT ON FUNCTION public.license_event_id(happened timestamp with time zone) IS 'Returns a random UUID of version 7 for the given time, so that the ids of events sort by time.';

CREATE FUNCTION public.license_stale(lease_until timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$SELECT lease_until <= now()$$;

COMMENT ON FUNCTION public.license_stale(lease_until timestamp with time zone) IS 'Reports whether a slot with this lease is stale and may be reclaimed (specification 3.2). The only definition of this rule.';

CREATE FUNCTION public.record_invoice_event() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'invoice.created', NULL, jsonb_build_object('invoiceId', NEW.id, 'number', NEW.number,
            'status', NEW.status, 'currency', NEW.currency, 'totalCents', NEW.total_cents, 'amountDueCents', NEW.amount_due_cents,
            'periodStart', event_time(NEW.period_start), 'periodEnd', event_time(NEW.period_end)));
    END IF;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.record_invoice_event() IS 'Records invoice.created.';

CREATE FUNCTION public.record_refusal_event() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'launch.refused', NULL, jsonb_build_object('reason', NEW.reason, 'count', NEW.count,
            'sessionId', NEW.session_id, 'profileId', NEW.profile_id, 'machineId', NEW.machine_id, 'keyId', NEW.key_id,
            'current', NEW.in_use, 'limit', NEW.max_slots, 'at', event_time(NEW.at)));
    END IF;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.record_refusal_event() IS 'Records launch.refused.';

CREATE FUNCTION public.record_revocation_event() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF event_wanted(NEW.organization_id) THEN
        PERFORM insert_event(NEW.organization_id, 'key.revoked', NULL, jsonb_build_object('keyId', NEW.id, 'name', NEW.name,
            'prefix', NEW.prefix, 'lastFour', NEW.last_four, 'revokedAt', event_time(NEW.revoked_at)));
    END IF;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.record_revocation_event() IS 'Records key.revoked.';

CREATE FUNCTION public.record_session_event() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    data jsonb;
BEGIN
    IF NOT event_wanted(NEW.organization_id) THEN
        RETURN NULL;
    END IF;
    data := jsonb_build_object('sessionId', NEW.id, 'profileId', NEW.profile_id, 'profileName', NEW.profile_name, 'machineId', NEW.machine_id,
        'keyId', NEW.key_id, 'launchId', NEW.launch_id, 'browserVersion', NEW.browser_version, 'name', NEW.name,
        'metadata', coalesce(NEW.metadata, '{}'), 'startedAt', event_time(NEW.started_at));
    IF NEW.status = 'running' THEN
        PERFORM insert_event(NEW.organization_id, 'session.started', 'session:' || NEW.id, data || jsonb_build_object('resumed', TG_OP = 'UPDATE'));
    ELSE
        PERFORM insert_event(NEW.organization_id, 'session.ended', 'session:' || NEW.id,
            data || jsonb_build_object('status', NEW.status, 'endReason', NEW.end_reason, 'endedAt', event_time(NEW.ended_at)));
    END IF;
    RETURN NULL;
END $$;

COMMENT ON FUNCTION public.record_session_event() IS 'Records session.started and session.ended.';

CREATE TABLE public.access_tokens (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    user_id uuid,
    name text NOT NULL,
    scopes text[] NOT NULL,
    token_hash bytea NOT NULL,
    last_four text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    service_account_id uuid,
    CONSTRAINT access_tokens_scopes CHECK ((cardinality(scopes) > 0)),
    CONSTRAINT access_tokens_subject CHECK (((user_id IS NULL) <> (service_account_id IS NULL))),
    CONSTRAINT access_tokens_token_hash_length CHECK ((length(token_hash) = 32))
);

ALTER TABLE ONLY public.access_tokens FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.access_tokens IS 'Tokens with which programs act for a user or a service account in one organization. They end with the membership or the account.';

COMMENT ON COLUMN public.access_tokens.token_hash IS 'SHA-256 of the token. The token itself is never stored.';

COMMENT ON COLUMN public.access_tokens.last_used_at IS 'Written at most once a minute; null if the token was never used.';

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
    key_id uuid,
    recording jsonb,
    name text,
    metadata jsonb,
    connections bigint,
    bytes_sent bigint,
    bytes_received bigint,
    denied bigint,
    hosts jsonb,
    CONSTRAINT activity_sessions_browser_version_check CHECK ((browser_version > 0)),
    CONSTRAINT activity_sessions_end CHECK (((status = 'running'::text) = (ended_at IS NULL))),
    CONSTRAINT activity_sessions_status_check CHECK ((status = ANY (ARRAY['running'::text, 'exited'::text, 'killed'::text])))
);

ALTER TABLE ONLY public.activity_sessions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.activity_sessions IS 'The sessions feed: one row per session that a worker reported.';

COMMENT ON COLUMN public.activity_sessions.id IS 'Chosen by the worker, therefore unique per organization only.';

COMMENT ON COLUMN public.activity_sessions.profile_id IS 'No foreign key: the history is kept when the profile is deleted.';

COMMENT ON COLUMN public.activity_sessions.key_id IS 'The organization key with which the worker reported the start. No foreign key either.';

COMMENT ON COLUMN public.activity_sessions.recording IS 'What the worker records, and the URL of the recording; null if it records nothing.';

COMMENT ON COLUMN public.activity_sessions.name IS 'Chosen by the client of the worker; null for none.';

COMMENT ON COLUMN public.activity_sessions.metadata IS 'The labels of the session, texts by name; null for none.';

COMMENT ON COLUMN public.activity_sessions.connections IS 'As reported with the end, like the next four columns; null before.';

COMMENT ON COLUMN public.activity_sessions.denied IS 'Denied requests.';

COMMENT ON COLUMN public.activity_sessions.hosts IS 'The hosts with the most bytes: an array of objects, as in the API.';

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

COMMENT ON TABLE public.api_keys IS 'Organization keys. api_key_valid decides whether a key is accepted.';

COMMENT ON COLUMN public.api_keys.key_hash IS 'SHA-256 of the key. The key itself is never stored.';

COMMENT ON COLUMN public.api_keys.prefix IS 'The first characters of the key, for display.';

COMMENT ON COLUMN public.api_keys.expires_at IS 'Null: the key does not expire.';

CREATE TABLE public.api_usage (
    organization_id uuid NOT NULL,
    minute timestamp with time zone NOT NULL,
    minute_requests bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    hour_requests bigint NOT NULL,
    CONSTRAINT api_usage_hour_requests_check CHECK ((hour_requests >= 0)),
    CONSTRAINT api_usage_minute_requests_check CHECK ((minute_requests >= 0))
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.api_usage FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.api_usage IS 'API requests per organization in the current minute and hour, added up by all replicas. Shown next to the limits; no request is refused because of it (specification 8).';

COMMENT ON COLUMN public.api_usage.minute IS 'The start of the minute that minute_requests counts.';

COMMENT ON COLUMN public.api_usage.hour IS 'The start of the hour that hour_requests counts.';

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
    actor_name text,
    CONSTRAINT audit_events_action_check CHECK (((action ~ '^[a-z][A-Za-z]*\.[a-z][A-Za-z]*$'::text) AND (length(action) <= 64))),
    CONSTRAINT audit_events_actor CHECK (((actor_type = ANY (ARRAY['operator'::text, 'system'::text])) = (actor_id IS NULL))),
    CONSTRAINT audit_events_actor_type_check CHECK ((actor_type = ANY (ARRAY['user'::text, 'key'::text, 'serviceAccount'::text, 'operator'::text, 'system'::text]))),
    CONSTRAINT audit_events_target_id_check CHECK (((length(target_id) >= 1) AND (length(target_id) <= 128)))
);

ALTER TABLE ONLY public.audit_events FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.audit_events IS 'The audit log. It has no foreign keys because its rows are kept when their subject is deleted, even an organization.';

COMMENT ON COLUMN public.audit_events.organization_id IS 'Null for an operator''s action on a user: no organization sees it.';

COMMENT ON COLUMN public.audit_events.actor_name IS 'The name of a service account at the time of the event; null for other actors.';

CREATE TABLE public.auth_attempts (
    kind text NOT NULL,
    subject bytea NOT NULL,
    attempts integer NOT NULL,
    blocked_until timestamp with time zone NOT NULL,
    forget_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.auth_attempts IS 'Counts sign-in and mail requests, to slow down guessing.';

COMMENT ON COLUMN public.auth_attempts.subject IS 'SHA-256 of an e-mail address (of an account or not), or of a client''s IP address.';

COMMENT ON COLUMN public.auth_attempts.forget_at IS 'When the row may be deleted.';

CREATE TABLE public.auth_sessions (
    token_hash text NOT NULL,
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    data bytea NOT NULL,
    expiry timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    ip_address text NOT NULL,
    user_agent text NOT NULL
);

COMMENT ON TABLE public.auth_sessions IS 'Dashboard sessions.';

COMMENT ON COLUMN public.auth_sessions.token_hash IS 'SHA-256 of the session token. The token itself is never stored.';

COMMENT ON COLUMN public.auth_sessions.id IS 'The public id, by which a user lists and ends sessions.';

CREATE TABLE public.auth_tokens (
    token_hash bytea NOT NULL,
    user_id uuid NOT NULL,
    purpose text NOT NULL,
    mailed boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT auth_tokens_purpose CHECK ((purpose = ANY (ARRAY['verifyEmail'::text, 'resetPassword'::text, 'signIn'::text]))),
    CONSTRAINT auth_tokens_token_hash_length CHECK ((length(token_hash) = 32))
);

COMMENT ON TABLE public.auth_tokens IS 'Single-use tokens that verify an address, reset a password or sign in.';

COMMENT ON COLUMN public.auth_tokens.token_hash IS 'SHA-256 of the token. The token itself is never stored.';

COMMENT ON COLUMN public.auth_tokens.user_id IS 'The foreign key is checked at commit: a request for an unknown account does the same work, then rolls back, so that its duration reveals nothing.';

COMMENT ON COLUMN public.auth_tokens.mailed IS 'True if the token was sent to the mailbox only, so that its use verifies the address. False for a link that an operator or the user created.';

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

COMMENT ON TABLE public.chromium_releases IS 'The browser builds that workers can install. The archives are in an object store.';

COMMENT ON COLUMN public.chromium_releases.object_key IS 'The key of the archive in the object store.';

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

COMMENT ON TABLE public.contact_messages IS 'Messages of the public contact form.';

COMMENT ON COLUMN public.contact_messages.network IS 'The sender''s IPv4 address, or the /64 network of an IPv6 address. The rate limit counts by it.';

CREATE TABLE public.deleted_organizations (
    organization_id uuid NOT NULL,
    deleted_at timestamp with time zone NOT NULL,
    next_check_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.deleted_organizations FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.deleted_organizations IS 'Deleted organizations that a payment provider might still bill. A row is deleted when the provider has no subscription of the organization left and no checkout session can create one.';

COMMENT ON COLUMN public.deleted_organizations.organization_id IS 'No foreign key: the organization does not exist any more.';

COMMENT ON COLUMN public.deleted_organizations.next_check_at IS 'When to ask the provider next. During a check: when another replica may check.';

CREATE TABLE public.deleted_profile_data (
    directory text NOT NULL,
    organization_id uuid NOT NULL,
    deleted_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.deleted_profile_data FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.deleted_profile_data IS 'The directories with the profile data of deleted organizations, which workers delete. Rows are kept: a worker may ask after years.';

COMMENT ON COLUMN public.deleted_profile_data.directory IS 'Derived from the key of the organization, so that only workers that have seen the store know it.';

COMMENT ON COLUMN public.deleted_profile_data.organization_id IS 'No foreign key: the organization does not exist any more.';

CREATE TABLE public.event_lost_machines (
    organization_id uuid NOT NULL,
    machine_id text NOT NULL
);

ALTER TABLE ONLY public.event_lost_machines FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.event_lost_machines IS 'The machines for which machine.lost was the last event.';

CREATE SEQUENCE public.event_positions
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.event_readers (
    organization_id uuid NOT NULL,
    read_until timestamp with time zone NOT NULL,
    recorded_since timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.event_readers FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.event_readers IS 'The organizations that read the event stream. Until read_until, their events are recorded.';

COMMENT ON COLUMN public.event_readers.recorded_since IS 'All events from this time on were recorded.';

CREATE TABLE public.events (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    seq bigint NOT NULL,
    "position" bigint,
    type text NOT NULL,
    subject text,
    data jsonb NOT NULL,
    is_test boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.events FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.events IS 'What happened in organizations that have an enabled endpoint or read the event stream. Triggers insert the events in the transaction of the change.';

COMMENT ON COLUMN public.events.organization_id IS 'No foreign key: its check would lock the organization in transactions that have already locked sessions. A trigger deletes the events with the organization.';

COMMENT ON COLUMN public.events.seq IS 'The order of the inserts. Transactions commit in another order.';

COMMENT ON COLUMN public.events."position" IS 'The order in which readers see the events, without later insertions; null until the event is published.';

COMMENT ON COLUMN public.events.subject IS 'The session or machine. Events of one subject are delivered in their order. Null if the order has no meaning.';

COMMENT ON COLUMN public.events.is_test IS 'A test of one endpoint, which the stream does not contain.';

ALTER TABLE public.events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

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

COMMENT ON TABLE public.idempotency_keys IS 'The answers to requests that had an Idempotency-Key header.';

COMMENT ON COLUMN public.idempotency_keys.id IS 'SHA-256 of the caller and the key.';

COMMENT ON COLUMN public.idempotency_keys.fingerprint IS 'SHA-256 of the request.';

COMMENT ON COLUMN public.idempotency_keys.holder IS 'The request that holds the key until lease_until.';

COMMENT ON COLUMN public.idempotency_keys.status IS 'The HTTP status of the answer. Null while the request is in progress.';

COMMENT ON COLUMN public.idempotency_keys.answer IS 'Encrypted because it may contain a secret that is shown once.';

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

COMMENT ON TABLE public.invitations IS 'Invitations to organizations. Open invitations count towards the member limit.';

COMMENT ON COLUMN public.invitations.email IS 'Always in lower case.';

COMMENT ON COLUMN public.invitations.token_hash IS 'SHA-256 of the mailed token. The token itself is never stored.';

COMMENT ON COLUMN public.invitations.outcome IS 'Null while the invitation is open. An invitation past expires_at stays open here until its address is invited again; then it becomes ''expired''.';

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

COMMENT ON TABLE public.invoices IS 'Invoices, written by manual billing or copied from the payment provider.';

CREATE TABLE public.license_events (
    id uuid DEFAULT public.license_event_id(clock_timestamp()) NOT NULL,
    organization_id uuid NOT NULL,
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

COMMENT ON TABLE public.license_events IS 'What happened to slots and machines, and why. Equal refusals in a short time are one event with a count.';

COMMENT ON COLUMN public.license_events.last_at IS 'When it happened last, if count is above 1.';

COMMENT ON COLUMN public.license_events.previous IS 'For limitChanged the previous limit; for counterRepaired the previous count.';

CREATE TABLE public.license_machine_info (
    organization_id uuid NOT NULL,
    machine_id text NOT NULL,
    key_id uuid NOT NULL,
    host_name text NOT NULL,
    worker_id text,
    version text NOT NULL,
    contract text,
    public_url text,
    max_sessions integer,
    draining boolean NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT license_machine_info_max_sessions_check CHECK ((max_sessions > 0)),
    CONSTRAINT license_machine_info_public_url_check CHECK ((length(public_url) <= 2048))
);

ALTER TABLE ONLY public.license_machine_info FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_machine_info IS 'What the worker of a machine reported about itself. It is apart from license_machines because each heartbeat copies the row of that table.';

COMMENT ON COLUMN public.license_machine_info.key_id IS 'The organization key of the worker. No foreign key, as in license_slots.';

COMMENT ON COLUMN public.license_machine_info.worker_id IS 'The name that the operator gave the worker. Null if none.';

COMMENT ON COLUMN public.license_machine_info.contract IS 'The version of the API document that the worker implements.';

COMMENT ON COLUMN public.license_machine_info.public_url IS 'The URL at which clients reach the worker.';

COMMENT ON COLUMN public.license_machine_info.max_sessions IS 'Null means no limit.';

CREATE TABLE public.license_machines (
    organization_id uuid NOT NULL,
    machine_id text NOT NULL,
    boot_id uuid NOT NULL,
    past_boots uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    seq bigint NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    previous_at timestamp with time zone,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    name text,
    CONSTRAINT license_machines_name_length CHECK (((length(name) >= 1) AND (length(name) <= 128)))
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_machines FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_machines IS 'The latest report of each worker host.';

COMMENT ON COLUMN public.license_machines.boot_id IS 'The current run of the worker.';

COMMENT ON COLUMN public.license_machines.past_boots IS 'The runs that the current one replaced, the latest last.';

COMMENT ON COLUMN public.license_machines.seq IS 'The sequence number of the last report of this boot. Reports with a lower number are out of date.';

COMMENT ON COLUMN public.license_machines.heartbeat_at IS 'When this boot last reported, by heartbeat or by a start.';

COMMENT ON COLUMN public.license_machines.previous_at IS 'When the machine reported before heartbeat_at.';

COMMENT ON COLUMN public.license_machines.first_seen_at IS 'When the machine reported for the first time.';

COMMENT ON COLUMN public.license_machines.name IS 'The name that a person gave the machine in the dashboard. Null if none.';

CREATE TABLE public.license_org (
    organization_id uuid NOT NULL,
    max_slots public.license_limit,
    in_use integer DEFAULT 0 NOT NULL,
    queued integer DEFAULT 0 NOT NULL,
    CONSTRAINT license_org_in_use_check CHECK ((in_use >= 0))
)
WITH (fillfactor='10');

ALTER TABLE ONLY public.license_org FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_org IS 'The counter of live slots per organization. It is updated last in each transaction that starts or ends slots.';

COMMENT ON COLUMN public.license_org.max_slots IS 'The concurrency limit. Null means unlimited.';

COMMENT ON COLUMN public.license_org.in_use IS 'The number of rows in license_slots that are not released. An auditor compares both and repairs a difference.';

COMMENT ON COLUMN public.license_org.queued IS 'The number of rows in license_queue. A launch that does not wait leaves that many slots free. The auditor repairs this counter too.';

CREATE TABLE public.license_queue (
    organization_id uuid NOT NULL,
    session_id uuid NOT NULL,
    place bigint NOT NULL,
    call_id uuid NOT NULL,
    lease_until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_queue FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_queue IS 'The launches that wait for a free slot. Rows are inserted and deleted while the row of license_org is locked.';

COMMENT ON COLUMN public.license_queue.place IS 'The order of arrival within an organization.';

COMMENT ON COLUMN public.license_queue.call_id IS 'The latest request of the session. Only that request can take the slot.';

COMMENT ON COLUMN public.license_queue.lease_until IS 'The replica that holds the request extends it. When it is over, the place is lost.';

ALTER TABLE public.license_queue ALTER COLUMN place ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.license_queue_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.license_slots (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
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

COMMENT ON TABLE public.license_slots IS 'One row per slot, from reservation to end, kept for a while after the end. A slot without a machine is a tombstone: the end of a session that was never reserved, kept so that a late start is refused.';

COMMENT ON COLUMN public.license_slots.organization_id IS 'No foreign key: checking it was a third of the cost of a grant. A slot is created while its license_org row is locked, and the trigger cascade_delete_slots deletes slots with that row.';

COMMENT ON COLUMN public.license_slots.seq IS 'The sequence number of the worker''s last report about this slot.';

COMMENT ON COLUMN public.license_slots.started_at IS 'By the worker''s clock. For display only.';

COMMENT ON COLUMN public.license_slots.lease_until IS 'When the slot may be reclaimed (specification 3.2): 2 minutes after the reservation; 6 hours after the start until the first heartbeat; 5 minutes after each heartbeat.';

COMMENT ON COLUMN public.license_slots.ended_at IS 'By the worker''s clock. For display only.';

CREATE TABLE public.license_superseded_boots (
    organization_id uuid NOT NULL,
    machine_id text NOT NULL,
    boot_id uuid NOT NULL,
    seq bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL,
    alive_since timestamp with time zone
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.license_superseded_boots FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.license_superseded_boots IS 'Boots that still report after another boot replaced them on their machine.';

COMMENT ON COLUMN public.license_superseded_boots.since IS 'When the boot first reported after it was replaced, without a long pause since.';

COMMENT ON COLUMN public.license_superseded_boots.alive_since IS 'When the boot proved to be running, which means that two workers share the machine id. Null if not proved.';

CREATE TABLE public.mail_outbox (
    id uuid NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    encrypted_text bytea,
    state text DEFAULT 'queued'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT mail_outbox_finished CHECK ((((state = 'queued'::text) = (finished_at IS NULL)) AND ((state = 'queued'::text) = (encrypted_text IS NOT NULL)))),
    CONSTRAINT mail_outbox_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'sent'::text, 'dead'::text])))
);

COMMENT ON TABLE public.mail_outbox IS 'Mails to send, and those sent recently.';

COMMENT ON COLUMN public.mail_outbox.encrypted_text IS 'Encrypted because it may contain a token. Null once the mail is sent or abandoned.';

COMMENT ON COLUMN public.mail_outbox.state IS '''dead'' is a mail that was abandoned after too many attempts.';

COMMENT ON COLUMN public.mail_outbox.due_at IS 'When to try next. During an attempt: when another replica may try.';

CREATE TABLE public.memberships (
    organization_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT memberships_role CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text])))
);

ALTER TABLE ONLY public.memberships FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.memberships IS 'The users of each organization and their roles.';

CREATE TABLE public.organizations (
    id uuid NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by uuid,
    network jsonb
);

ALTER TABLE ONLY public.organizations FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.organizations IS 'The tenants. Everything that belongs to an organization is deleted with it, except audit_events and deleted_organizations.';

COMMENT ON COLUMN public.organizations.network IS 'The network rules of all launches of the organization; null for none.';

CREATE TABLE public.payment_events (
    id text NOT NULL,
    kind text NOT NULL,
    received_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.payment_events IS 'The payment provider''s events that were processed, so that an event sent twice counts once.';

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

COMMENT ON TABLE public.plans IS 'The plans on offer. A limit that is null means unlimited.';

COMMENT ON COLUMN public.plans.add_ons IS 'The add-ons that can be bought with this plan.';

COMMENT ON COLUMN public.plans."position" IS 'The order in the list of plans.';

CREATE TABLE public.profile_data (
    profile_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    current_version uuid,
    lease_session uuid,
    lease_machine text,
    CONSTRAINT profile_data_lease CHECK (((lease_session IS NULL) = (lease_machine IS NULL)))
);

ALTER TABLE ONLY public.profile_data FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.profile_data IS 'The current version of the browser data of each persistent profile, and the session that may write the next one.';

COMMENT ON COLUMN public.profile_data.profile_id IS 'No foreign key: it would be checked for each ephemeral profile. The trigger delete_profile_data deletes the row with the profile.';

COMMENT ON COLUMN public.profile_data.current_version IS 'Null if no version exists.';

COMMENT ON COLUMN public.profile_data.lease_session IS 'The session that last acquired the data. Its lease lasts as long as its license slot.';

CREATE TABLE public.profile_data_keys (
    organization_id uuid NOT NULL,
    key_secret bytea NOT NULL
);

ALTER TABLE ONLY public.profile_data_keys FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.profile_data_keys IS 'The keys with which workers encrypt the browser data of each organization.';

COMMENT ON COLUMN public.profile_data_keys.key_secret IS 'The key, encrypted with this organization as associated data.';

CREATE TABLE public.profile_data_versions (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    profile_id uuid NOT NULL,
    session_id uuid NOT NULL,
    machine_id text NOT NULL,
    size_bytes bigint NOT NULL,
    sent_bytes bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT profile_data_versions_sent_bytes_check CHECK ((sent_bytes >= 0)),
    CONSTRAINT profile_data_versions_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE ONLY public.profile_data_versions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.profile_data_versions IS 'The saved versions of the browser data of profiles.';

COMMENT ON COLUMN public.profile_data_versions.size_bytes IS 'The size of the files.';

COMMENT ON COLUMN public.profile_data_versions.sent_bytes IS 'The size of the objects that the worker added to the store.';

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
    given_up_at timestamp with time zone,
    last_used_at timestamp with time zone,
    created_by uuid,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    client_certificates jsonb,
    client_certificate_secret bytea,
    CONSTRAINT profiles_browser_version_check CHECK ((browser_version > 0)),
    CONSTRAINT profiles_given_up CHECK ((ephemeral OR (given_up_at IS NULL))),
    CONSTRAINT profiles_version_known CHECK ((ephemeral OR (browser_version IS NOT NULL)))
);

ALTER TABLE ONLY public.profiles FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.profiles IS 'Browser profiles: the identity that a browser presents and the settings it is launched with.';

COMMENT ON COLUMN public.profiles.browser_version IS 'The major version. Null only for an ephemeral profile whose worker has not yet reported the version it chose.';

COMMENT ON COLUMN public.profiles.settings IS 'All other settings, under their names in the API. Never contains a secret.';

COMMENT ON COLUMN public.profiles.proxy_secret IS 'The proxy password, encrypted with this organization and profile as associated data.';

COMMENT ON COLUMN public.profiles.version IS 'Incremented by each update; served as the ETag.';

COMMENT ON COLUMN public.profiles.ephemeral IS 'Created for one launch and deleted with it. Not listed, but counted towards the profile limit unless given_up_at is set.';

COMMENT ON COLUMN public.profiles.given_up_at IS 'When the slot of this ephemeral profile''s launch was reclaimed. The profile is kept, uncounted, in case the session turns out to be running.';

COMMENT ON COLUMN public.profiles.client_certificates IS 'The origin, subject and expiry of each client certificate; null for none.';

COMMENT ON COLUMN public.profiles.client_certificate_secret IS 'The client certificates with their keys, encrypted with this organization, profile and column as associated data; null for none.';

CREATE TABLE public.schema_compatibility (
    one_row boolean DEFAULT true NOT NULL,
    oldest_version bigint NOT NULL,
    CONSTRAINT schema_compatibility_one_row_check CHECK (one_row)
);

COMMENT ON TABLE public.schema_compatibility IS 'Which older programs run on this schema. It has one row.';

COMMENT ON COLUMN public.schema_compatibility.oldest_version IS 'The oldest compatible program: a program whose newest migration is lower refuses to start. A migration that removes or changes what such programs use raises it.';

CREATE TABLE public.secrets (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL,
    username text,
    origins text[] NOT NULL,
    profile_ids uuid[],
    password_secret bytea,
    totp_secret bytea,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone
);

ALTER TABLE ONLY public.secrets FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.secrets IS 'Credentials that workers type into pages.';

COMMENT ON COLUMN public.secrets.profile_ids IS 'The profiles whose sessions may use the secret; null for all, empty for none. The trigger forget_secret_profile removes deleted profiles.';

COMMENT ON COLUMN public.secrets.password_secret IS 'The password, encrypted with this organization, secret and column as associated data; null for none.';

COMMENT ON COLUMN public.secrets.totp_secret IS 'The TOTP seed, encrypted in the same way; null for none.';

CREATE TABLE public.service_accounts (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    created_by uuid,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    CONSTRAINT service_accounts_scopes CHECK ((cardinality(scopes) > 0))
);

ALTER TABLE ONLY public.service_accounts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.service_accounts IS 'Identities of organizations for programs that belong to no person.';

COMMENT ON COLUMN public.service_accounts.disabled IS 'A disabled account has no tokens.';

COMMENT ON COLUMN public.service_accounts.last_used_at IS 'Written at most once a minute for each token; null if the account was never used.';

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

COMMENT ON TABLE public.subscription_add_ons IS 'The add-ons of each subscription, on the terms at which they were bought.';

COMMENT ON COLUMN public.subscription_add_ons.amount IS 'How much one unit adds to the limit.';

CREATE TABLE public.subscriptions (
    organization_id uuid NOT NULL,
    plan_id uuid NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    operator_suspended_at timestamp with time zone,
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
    base_profile_limit integer,
    additional_profile_limit integer DEFAULT 0 NOT NULL,
    suspended_profile_limit integer,
    effective_profile_limit integer GENERATED ALWAYS AS (
CASE
    WHEN (operator_suspended_at IS NOT NULL) THEN 0
    WHEN (status = 'suspended'::text) THEN suspended_profile_limit
    ELSE (base_profile_limit + additional_profile_limit)
END) STORED,
    base_member_limit integer,
    additional_member_limit integer DEFAULT 0 NOT NULL,
    suspended_member_limit integer,
    effective_member_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_member_limit
    ELSE (base_member_limit + additional_member_limit)
END) STORED,
    base_api_rpm_limit integer,
    additional_api_rpm_limit integer DEFAULT 0 NOT NULL,
    suspended_api_rpm_limit integer,
    effective_api_rpm_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_api_rpm_limit
    ELSE (base_api_rpm_limit + additional_api_rpm_limit)
END) STORED,
    base_api_rph_limit integer,
    additional_api_rph_limit integer DEFAULT 0 NOT NULL,
    suspended_api_rph_limit integer,
    effective_api_rph_limit integer GENERATED ALWAYS AS (
CASE status
    WHEN 'suspended'::text THEN suspended_api_rph_limit
    ELSE (base_api_rph_limit + additional_api_rph_limit)
END) STORED,
    revision bigint DEFAULT 0 NOT NULL,
    changing_until timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT subscriptions_credit_cents_check CHECK ((credit_cents >= 0)),
    CONSTRAINT subscriptions_currency_check CHECK ((currency ~ '^[a-z]{3}$'::text)),
    CONSTRAINT subscriptions_interval_check CHECK (("interval" = ANY (ARRAY['month'::text, 'year'::text]))),
    CONSTRAINT subscriptions_period CHECK ((num_nulls(provider, period_anchor, current_period_start, current_period_end) = ANY (ARRAY[0, 4]))),
    CONSTRAINT subscriptions_price_cents_check CHECK ((price_cents >= 0)),
    CONSTRAINT subscriptions_provider_check CHECK ((provider = ANY (ARRAY['manual'::text, 'stripe'::text]))),
    CONSTRAINT subscriptions_status CHECK ((status = ANY (ARRAY['active'::text, 'past_due'::text, 'suspended'::text, 'canceled'::text])))
);

ALTER TABLE ONLY public.subscriptions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.subscriptions IS 'The plan of each organization. Price and base limits are copied from the plan when it is bought, so a later change of the plan does not affect them. A limit that is null means unlimited.';

COMMENT ON COLUMN public.subscriptions.status IS '''suspended'' means unpaid: the suspended_* limits apply until it is paid.';

COMMENT ON COLUMN public.subscriptions.operator_suspended_at IS 'When an operator suspended the organization, or null. A suspended organization launches nothing, whatever it pays.';

COMMENT ON COLUMN public.subscriptions.period_anchor IS 'The start of the first period. Later periods start on the same day of the month, or on the last day of a shorter month.';

COMMENT ON COLUMN public.subscriptions.current_period_end IS 'Null for a plan that costs nothing: it has no billing period.';

COMMENT ON COLUMN public.subscriptions.credit_cents IS 'Manual billing: the remaining credit, which the next invoices use up.';

COMMENT ON COLUMN public.subscriptions.last_invoice IS 'Manual billing: the number of the last invoice.';

COMMENT ON COLUMN public.subscriptions.provider_checkout_id IS 'The last checkout page. There is never more than one open.';

COMMENT ON COLUMN public.subscriptions.suspended_profile_limit IS 'The limit while the subscription is suspended: that of the free plan at the time.';

COMMENT ON COLUMN public.subscriptions.effective_profile_limit IS 'The profile limit that is enforced, derived from the columns above. Null means unlimited. The other effective_* columns likewise.';

COMMENT ON COLUMN public.subscriptions.revision IS 'Incremented by each change. A writer that read another revision must read again.';

COMMENT ON COLUMN public.subscriptions.changing_until IS 'A change at the payment provider is in progress. No other change may begin before this time.';

CREATE TABLE public.user_identities (
    issuer text NOT NULL,
    subject text NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.user_identities IS 'The identities of users at OpenID providers.';

CREATE TABLE public.users (
    id uuid NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    password_hash text,
    credential_version integer DEFAULT 0 NOT NULL,
    email_verified_at timestamp with time zone,
    disabled_at timestamp with time zone,
    last_organization_id uuid,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT users_email_lower CHECK ((email = lower((email COLLATE "C"))))
);

COMMENT ON TABLE public.users IS 'People who sign in to the dashboard.';

COMMENT ON COLUMN public.users.email IS 'Always in lower case.';

COMMENT ON COLUMN public.users.password_hash IS 'Null for an account that signs in by single sign-on only.';

COMMENT ON COLUMN public.users.credential_version IS 'Incremented when the credentials change. A sign-in that started with the previous version fails.';

COMMENT ON COLUMN public.users.email_verified_at IS 'Null until the address is verified.';

COMMENT ON COLUMN public.users.disabled_at IS 'When an operator disabled the account, or null. A disabled account has no sessions and cannot sign in.';

COMMENT ON COLUMN public.users.last_organization_id IS 'The organization that becomes active when the user signs in.';

CREATE TABLE public.webhook_deliveries (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    event_id uuid NOT NULL,
    "position" bigint NOT NULL,
    type text NOT NULL,
    subject text,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    last_duration_ms integer,
    CONSTRAINT webhook_deliveries_state CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.webhook_deliveries FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.webhook_deliveries IS 'The events to send to each endpoint, and those sent in the last days.';

COMMENT ON COLUMN public.webhook_deliveries.subject IS 'A delivery waits for the earlier pending ones to the same endpoint with the same subject.';

COMMENT ON COLUMN public.webhook_deliveries.last_error IS 'Why the last attempt failed, for people; null if it succeeded.';

COMMENT ON COLUMN public.webhook_deliveries.last_duration_ms IS 'Of the last attempt; null if there was none, or if an earlier program made it.';

CREATE TABLE public.webhook_endpoints (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    url text NOT NULL,
    description text,
    types text[],
    secret bytea NOT NULL,
    old_secret bytea,
    old_secret_until timestamp with time zone,
    enabled boolean NOT NULL,
    disabled_reason text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    failing_since timestamp with time zone,
    paused_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    lease_id uuid,
    lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT webhook_endpoints_disabled_reason CHECK ((disabled_reason = ANY (ARRAY['failing'::text, 'gone'::text]))),
    CONSTRAINT webhook_endpoints_types CHECK ((cardinality(types) > 0))
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.webhook_endpoints FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.webhook_endpoints IS 'The URLs to which the events of an organization are sent.';

COMMENT ON COLUMN public.webhook_endpoints.types IS 'The types of the events to send; null for all.';

COMMENT ON COLUMN public.webhook_endpoints.secret IS 'The secret that signs requests, encrypted with this organization and endpoint as associated data.';

COMMENT ON COLUMN public.webhook_endpoints.old_secret IS 'The secret before the last rotation, encrypted in the same way. It signs too, until old_secret_until.';

COMMENT ON COLUMN public.webhook_endpoints.disabled_reason IS 'Why the service disabled the endpoint; null if a person did.';

COMMENT ON COLUMN public.webhook_endpoints.failing_since IS 'The first failed attempt since the last delivery; null if the last attempt succeeded.';

COMMENT ON COLUMN public.webhook_endpoints.paused_until IS 'No attempts before this time, because all of the last ones failed.';

COMMENT ON COLUMN public.webhook_endpoints.lease_id IS 'The replica that sends to the endpoint, until lease_until.';

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_usage
    ADD CONSTRAINT api_usage_pkey PRIMARY KEY (organization_id);

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

ALTER TABLE ONLY public.deleted_organizations
    ADD CONSTRAINT deleted_organizations_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.deleted_profile_data
    ADD CONSTRAINT deleted_profile_data_pkey PRIMARY KEY (directory);

ALTER TABLE ONLY public.event_lost_machines
    ADD CONSTRAINT event_lost_machines_pkey PRIMARY KEY (organization_id, machine_id);

ALTER TABLE ONLY public.event_readers
    ADD CONSTRAINT event_readers_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

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

ALTER TABLE ONLY public.license_machine_info
    ADD CONSTRAINT license_machine_info_pkey PRIMARY KEY (organization_id, machine_id);

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_pkey PRIMARY KEY (organization_id, machine_id);

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.license_queue
    ADD CONSTRAINT license_queue_pkey PRIMARY KEY (organization_id, session_id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.license_slots
    ADD CONSTRAINT license_slots_session UNIQUE (organization_id, session_id);

ALTER TABLE ONLY public.license_superseded_boots
    ADD CONSTRAINT license_superseded_boots_pkey PRIMARY KEY (organization_id, machine_id, boot_id);

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

ALTER TABLE ONLY public.profile_data_keys
    ADD CONSTRAINT profile_data_keys_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY public.profile_data
    ADD CONSTRAINT profile_data_pkey PRIMARY KEY (profile_id);

ALTER TABLE ONLY public.profile_data_versions
    ADD CONSTRAINT profile_data_versions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_compatibility
    ADD CONSTRAINT schema_compatibility_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_name UNIQUE (organization_id, name);

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_name UNIQUE (organization_id, name);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_organization_key UNIQUE (organization_id, id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_pkey PRIMARY KEY (id);

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

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (id);

CREATE INDEX access_tokens_expires_at_idx ON public.access_tokens USING btree (expires_at);

CREATE INDEX access_tokens_membership_idx ON public.access_tokens USING btree (organization_id, user_id);

CREATE INDEX access_tokens_service_account_idx ON public.access_tokens USING btree (organization_id, service_account_id) WHERE (service_account_id IS NOT NULL);

CREATE INDEX activity_sessions_feed ON public.activity_sessions USING btree (organization_id, started_at DESC, id DESC);

CREATE INDEX activity_sessions_labelled ON public.activity_sessions USING btree (organization_id, started_at DESC, id DESC) WHERE (metadata IS NOT NULL);

CREATE INDEX activity_sessions_name ON public.activity_sessions USING btree (organization_id, name, started_at DESC) WHERE (name IS NOT NULL);

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

CREATE INDEX deleted_organizations_next_check_at_idx ON public.deleted_organizations USING btree (next_check_at);

CREATE INDEX events_created_at_idx ON public.events USING btree (created_at);

CREATE INDEX events_organization_position_idx ON public.events USING btree (organization_id, "position");

CREATE UNIQUE INDEX events_position_idx ON public.events USING btree ("position");

CREATE INDEX events_unpublished_idx ON public.events USING btree (seq) WHERE ("position" IS NULL);

CREATE INDEX idempotency_keys_expires_at ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX invitations_invited_by ON public.invitations USING btree (invited_by) WHERE (invited_by IS NOT NULL);

CREATE UNIQUE INDEX invitations_open ON public.invitations USING btree (organization_id, email) WHERE (outcome IS NULL);

CREATE INDEX invoices_list_idx ON public.invoices USING btree (organization_id, created_at, id);

CREATE INDEX license_events_list ON public.license_events USING btree (organization_id, at, id);

CREATE INDEX license_events_machine ON public.license_events USING btree (organization_id, machine_id, at, id) WHERE (machine_id IS NOT NULL);

CREATE INDEX license_events_session ON public.license_events USING btree (organization_id, session_id) WHERE (session_id IS NOT NULL);

CREATE INDEX license_events_usage ON public.license_events USING btree (organization_id, kind, at) WHERE (kind = ANY (ARRAY['adopted'::text, 'limitChanged'::text]));

CREATE INDEX license_queue_place ON public.license_queue USING btree (organization_id, place);

CREATE INDEX license_slots_live ON public.license_slots USING btree (organization_id, machine_id) WHERE (released_at IS NULL);

CREATE INDEX license_slots_released ON public.license_slots USING btree (organization_id, released_at) WHERE (released_at IS NOT NULL);

CREATE INDEX license_slots_tombstones ON public.license_slots USING btree (organization_id, id) WHERE (machine_id IS NULL);

CREATE INDEX mail_outbox_due ON public.mail_outbox USING btree (due_at) WHERE (state = 'queued'::text);

CREATE INDEX memberships_user_id_idx ON public.memberships USING btree (user_id);

CREATE INDEX organizations_created_by ON public.organizations USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX payment_events_received_at_idx ON public.payment_events USING btree (received_at);

CREATE INDEX profile_data_organization ON public.profile_data USING btree (organization_id);

CREATE INDEX profile_data_versions_profile ON public.profile_data_versions USING btree (profile_id, created_at);

CREATE INDEX profiles_created_by ON public.profiles USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX profiles_ephemeral ON public.profiles USING btree (organization_id) WHERE ephemeral;

CREATE INDEX profiles_list ON public.profiles USING btree (organization_id, created_at, id) WHERE (NOT ephemeral);

CREATE INDEX profiles_tags ON public.profiles USING gin (tags) WHERE (NOT ephemeral);

CREATE INDEX service_accounts_created_by ON public.service_accounts USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX subscriptions_due_idx ON public.subscriptions USING btree (current_period_end) WHERE (current_period_end IS NOT NULL);

CREATE INDEX subscriptions_provider_checkout_id_idx ON public.subscriptions USING btree (provider_checkout_id) WHERE (provider_checkout_id IS NOT NULL);

CREATE INDEX user_identities_user_id_idx ON public.user_identities USING btree (user_id);

CREATE INDEX webhook_deliveries_created_idx ON public.webhook_deliveries USING btree (endpoint_id, created_at, id);

CREATE INDEX webhook_deliveries_due_idx ON public.webhook_deliveries USING btree (endpoint_id, due_at) WHERE (state = 'pending'::text);

CREATE INDEX webhook_deliveries_order_idx ON public.webhook_deliveries USING btree (endpoint_id, subject, "position") WHERE (state <> ALL (ARRAY['delivered'::text, 'failed'::text]));

CREATE INDEX webhook_endpoints_organization_idx ON public.webhook_endpoints USING btree (organization_id);

CREATE TRIGGER cascade_delete_slots AFTER DELETE ON public.license_org FOR EACH ROW EXECUTE FUNCTION public.cascade_delete_slots();

CREATE TRIGGER delete_events AFTER DELETE ON public.organizations FOR EACH ROW EXECUTE FUNCTION public.delete_events();

CREATE TRIGGER delete_profile_data AFTER DELETE ON public.profiles FOR EACH ROW WHEN ((NOT old.ephemeral)) EXECUTE FUNCTION public.delete_profile_data();

CREATE TRIGGER forget_secret_profile AFTER DELETE ON public.profiles FOR EACH ROW WHEN ((NOT old.ephemeral)) EXECUTE FUNCTION public.forget_secret_profile();

CREATE TRIGGER record_invoice AFTER INSERT ON public.invoices FOR EACH ROW EXECUTE FUNCTION public.record_invoice_event();

CREATE TRIGGER record_refusal AFTER INSERT ON public.license_events FOR EACH ROW WHEN ((new.kind = 'refused'::text)) EXECUTE FUNCTION public.record_refusal_event();

CREATE TRIGGER record_revocation AFTER UPDATE ON public.api_keys FOR EACH ROW WHEN (((old.revoked_at IS NULL) AND (new.revoked_at IS NOT NULL))) EXECUTE FUNCTION public.record_revocation_event();

CREATE TRIGGER record_session_change AFTER UPDATE ON public.activity_sessions FOR EACH ROW WHEN (((old.status = 'running'::text) <> (new.status = 'running'::text))) EXECUTE FUNCTION public.record_session_event();

CREATE TRIGGER record_session_start AFTER INSERT ON public.activity_sessions FOR EACH ROW WHEN ((new.status = 'running'::text)) EXECUTE FUNCTION public.record_session_event();

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_membership_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.memberships(organization_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_service_account_fkey FOREIGN KEY (organization_id, service_account_id) REFERENCES public.service_accounts(organization_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY public.activity_sessions
    ADD CONSTRAINT activity_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_usage
    ADD CONSTRAINT api_usage_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.auth_sessions
    ADD CONSTRAINT auth_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.auth_tokens
    ADD CONSTRAINT auth_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.event_lost_machines
    ADD CONSTRAINT event_lost_machines_machine_fkey FOREIGN KEY (organization_id, machine_id) REFERENCES public.license_machines(organization_id, machine_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.event_readers
    ADD CONSTRAINT event_readers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_events
    ADD CONSTRAINT license_events_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_machine_info
    ADD CONSTRAINT license_machine_info_organization_id_machine_id_fkey FOREIGN KEY (organization_id, machine_id) REFERENCES public.license_machines(organization_id, machine_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_machines
    ADD CONSTRAINT license_machines_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_org
    ADD CONSTRAINT license_org_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_queue
    ADD CONSTRAINT license_queue_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.license_org(organization_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.license_superseded_boots
    ADD CONSTRAINT license_superseded_boots_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.profile_data_keys
    ADD CONSTRAINT profile_data_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.profile_data
    ADD CONSTRAINT profile_data_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.profile_data_versions
    ADD CONSTRAINT profile_data_versions_profile_id_fkey FOREIGN KEY (profile_id) REFERENCES public.profile_data(profile_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT profiles_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

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

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES public.webhook_endpoints(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id) ON DELETE CASCADE;

ALTER TABLE public.access_tokens ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.activity_sessions ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_organizations ON public.access_tokens TO svc_all USING (true);

CREATE POLICY all_organizations ON public.activity_sessions TO svc_all USING (true);

CREATE POLICY all_organizations ON public.api_keys TO svc_all USING (true);

CREATE POLICY all_organizations ON public.api_usage TO svc_all USING (true);

CREATE POLICY all_organizations ON public.audit_events TO svc_all USING (true);

CREATE POLICY all_organizations ON public.deleted_organizations TO svc_all USING (true);

CREATE POLICY all_organizations ON public.deleted_profile_data TO svc_all USING (true);

CREATE POLICY all_organizations ON public.event_lost_machines TO svc_all USING (true);

CREATE POLICY all_organizations ON public.event_readers TO svc_all USING (true);

CREATE POLICY all_organizations ON public.events TO svc_all USING (true);

CREATE POLICY all_organizations ON public.invitations TO svc_all USING (true);

CREATE POLICY all_organizations ON public.invoices TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_events TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_machine_info TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_machines TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_org TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_queue TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_slots TO svc_all USING (true);

CREATE POLICY all_organizations ON public.license_superseded_boots TO svc_all USING (true);

CREATE POLICY all_organizations ON public.memberships TO svc_all USING (true);

CREATE POLICY all_organizations ON public.organizations TO svc_all USING (true);

CREATE POLICY all_organizations ON public.profile_data TO svc_all USING (true);

CREATE POLICY all_organizations ON public.profile_data_keys TO svc_all USING (true);

CREATE POLICY all_organizations ON public.profile_data_versions TO svc_all USING (true);

CREATE POLICY all_organizations ON public.profiles TO svc_all USING (true);

CREATE POLICY all_organizations ON public.secrets TO svc_all USING (true);

CREATE POLICY all_organizations ON public.service_accounts TO svc_all USING (true);

CREATE POLICY all_organizations ON public.subscription_add_ons TO svc_all USING (true);

CREATE POLICY all_organizations ON public.subscriptions TO svc_all USING (true);

CREATE POLICY all_organizations ON public.webhook_deliveries TO svc_all USING (true);

CREATE POLICY all_organizations ON public.webhook_endpoints TO svc_all USING (true);

ALTER TABLE public.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.api_usage ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.deleted_organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.deleted_profile_data ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.event_lost_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.event_readers ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invitations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invoices ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_machine_info ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_org ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_queue ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_slots ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.license_superseded_boots ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.memberships ENABLE ROW LEVEL SECURITY;

CREATE POLICY one_organization ON public.access_tokens USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.activity_sessions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.api_keys USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.api_usage USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.audit_events USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.deleted_organizations USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.deleted_profile_data USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.event_lost_machines USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.event_readers USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.events USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.invitations USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.invoices USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_events USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_machine_info USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_machines USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_org USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_queue USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_slots USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.license_superseded_boots USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.memberships USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.organizations USING ((id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profile_data USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profile_data_keys USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profile_data_versions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.profiles USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.secrets USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.service_accounts USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.subscription_add_ons USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.subscriptions USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.webhook_deliveries USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

CREATE POLICY one_organization ON public.webhook_endpoints USING ((organization_id = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS "nullif")));

ALTER TABLE public.organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profile_data ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profile_data_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profile_data_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.profiles ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.secrets ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.service_accounts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subscription_add_ons ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subscriptions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_deliveries ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_endpoints ENABLE ROW LEVEL SECURITY;
