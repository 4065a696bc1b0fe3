package rest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// licenseAPI is the license part of the cloud, for a worker of an organization with two
// slots, one profile and a limit of three profiles.
type licenseAPI struct {
	*profilesAPI
	license rest.License
	profile uuid.UUID
	boot    uuid.UUID
	seq     int64
}

type licenseHandlers struct {
	unimplemented
	rest.License
	rest.Machines
	rest.Sessions
}

// ephemeralProfiles creates profiles of launches as in production.
type ephemeralProfiles struct{ *profile.Service }

func (l ephemeralProfiles) CreateEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, draft profile.Draft) (uuid.UUID, error) {
	id, err := l.Service.CreateEphemeral(ctx, tx, orgID, draft)
	if full, ok := errors.AsType[*profile.LimitError](err); ok {
		return uuid.Nil, license.ProfileLimitError{Current: full.Current, Limit: full.Limit}
	}
	return id, err
}

func (l ephemeralProfiles) Prepare(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]license.Prepared, error) {
	found, err := l.Configs(ctx, orgID, ids)
	prepared := map[uuid.UUID]license.Prepared{}
	for id, each := range found {
		prepared[id] = license.Prepared{Config: each.Config, Err: each.Err}
	}
	return prepared, err
}

// noObserver does nothing.
type noObserver struct{}

func (noObserver) SessionsStarted(context.Context, *sqlx.Tx, []license.Started) error { return nil }
func (noObserver) SessionsEnded(context.Context, *sqlx.Tx, []license.Ended) error     { return nil }

func newLicenseAPI(t *testing.T) *licenseAPI {
	t.Helper()
	a := &licenseAPI{profilesAPI: newProfilesAPI(t), boot: newID()}
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	must(t, err)
	profiles := &profile.Service{DB: a.db, Clock: a.clock, Sealer: box, Limits: planLimits{plan.New(a.db), a.db}, LiveSessions: a.live}
	licenses, err := license.New(t.Context(), a.db, noObserver{}, slog.New(slog.DiscardHandler), license.Options{Profiles: ephemeralProfiles{profiles}, KnownProfiles: profiles})
	must(t, err)
	t.Cleanup(func() { licenses.Close() })
	tx, err := a.db.Beginx()
	must(t, err)
	two := 2
	must(t, licenses.SetLimit(t.Context(), tx, a.org, &two))
	must(t, tx.Commit())
	a.profile = a.create(map[string]any{"name": "Checkout", "browserVersion": 156}).Id
	a.license = rest.License{Licenses: licenses, Profiles: ephemeralProfiles{profiles}, Feed: a.feed, Ends: a.feed}
	a.serve(licenseHandlers{
		License: a.license, Machines: rest.Machines{Machines: licenses}, Sessions: rest.Sessions{Feed: a.feed, Licenses: licenses},
	})
	return a
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// ask returns a request for a slot, for a profile or with a spec.
func (a *licenseAPI) ask(session uuid.UUID, key string, value any) reply {
	a.t.Helper()
	return a.do("POST", "/v1/license/authorize", a.worker, map[string]any{
		"machineId": "worker-1", "bootId": a.boot, "sessionId": session, key: value,
	})
}

func (a *licenseAPI) reserve() uuid.UUID {
	a.t.Helper()
	session := newID()
	decode[cloudapi.Authorization](a.t, a.ask(session, "profileId", a.profile), 200)
	return session
}

func (a *licenseAPI) start(session uuid.UUID) reply {
	a.t.Helper()
	a.seq++
	return a.do("POST", a.sessions(), a.worker, map[string]any{
		"sessionId": session, "machineId": "worker-1", "bootId": a.boot, "seq": a.seq, "launchId": newID(),
		"browserVersion": 156, "startedAt": time.Now().UTC(),
	})
}

func (a *licenseAPI) sessions() string { return "/v1/profiles/" + a.profile.String() + "/sessions" }

func TestAuthorize_ReturnsProfileConfig(t *testing.T) {
	a := newLicenseAPI(t)
	got := decode[cloudapi.Authorization](t, a.ask(newID(), "profileId", a.profile), 200)
	if !got.Allowed || got.Current != 1 || *got.Limit != 2 || got.SlotId == nil || got.ProfileConfig == nil || got.ProfileConfig.ProfileId != a.profile {
		t.Errorf("got %+v", got)
	}
}

func TestAuthorize_WithoutProfileReservesSlot(t *testing.T) {
	a := newLicenseAPI(t)
	got := decode[cloudapi.Authorization](t, a.do("POST", "/v1/license/authorize", a.worker, map[string]any{
		"machineId": "worker-1", "bootId": a.boot, "sessionId": newID(),
	}), 200)
	if !got.Allowed || got.SlotId == nil || got.ProfileConfig != nil {
		t.Errorf("got %+v", got)
	}
}

func TestStartProfileSession_ForeignProfileNotFound(t *testing.T) {
	a := newLicenseAPI(t)
	elsewhere, theirs := newID(), newID()
	_, err := a.db.Exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', 'another', now())`, elsewhere)
	must(t, err)
	_, err = a.db.Exec(`INSERT INTO profiles (id, organization_id, name, browser_version, os, created_at, updated_at)
		VALUES ($1, $2, 'Theirs', 156, 'linux', now(), now())`, theirs, elsewhere)
	must(t, err)
	for _, a.profile = range []uuid.UUID{newID(), theirs} {
		session := newID()
		decode[cloudapi.Authorization](t, a.do("POST", "/v1/license/authorize", a.worker, map[string]any{
			"machineId": "worker-1", "bootId": a.boot, "sessionId": session,
		}), 200)
		a.start(session).want(t, 404, "RESOURCE_NOT_FOUND")
	}
	if got := a.overview(); got.RunningSessions != 0 {
		t.Errorf("got %d running sessions", got.RunningSessions)
	}
}

func TestStartProfileSession_YearZeroIsFieldError(t *testing.T) {
	a := newLicenseAPI(t)
	for _, date := range []string{"0000-06-01T00:00:00Z", "0001-01-01T00:00:00+23:00"} {
		session := a.reserve()
		for _, got := range []struct {
			field string
			reply
		}{
			{"endedAt", a.do("DELETE", a.sessions()+"/"+session.String(), a.worker, map[string]any{"endedAt": date})},
			{"startedAt", a.do("POST", a.sessions(), a.worker, map[string]any{
				"sessionId": session, "machineId": "worker-1", "bootId": a.boot, "seq": 1, "launchId": newID(),
				"browserVersion": 156, "startedAt": date,
			})},
		} {
			got.want(t, 400, "VALIDATION_ERROR")
			if !strings.Contains(got.body, `"field":"`+got.field+`"`) {
				t.Errorf("%s: got %s", got.field, got.body)
			}
		}
	}
}

func TestAuthorize_RefusesAtLimit(t *testing.T) {
	a := newLicenseAPI(t)
	a.reserve()
	a.reserve()
	got := decode[cloudapi.Authorization](t, a.ask(newID(), "profileId", a.profile), 402)
	if got.Allowed || *got.Reason != cloudapi.RefusalReasonConcurrencyLimit || got.Current != 2 || *got.Limit != 2 || got.SlotId != nil || got.ProfileConfig != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAuthorize_MissingProfileTakesNoSlot(t *testing.T) {
	a := newLicenseAPI(t)
	a.ask(newID(), "profileId", newID()).want(t, 404, "RESOURCE_NOT_FOUND")
	if got := a.overview(); got.Current != 0 {
		t.Errorf("got %d taken slots", got.Current)
	}
}

func TestAuthorize_SpecCreatesProfileOnce(t *testing.T) {
	a := newLicenseAPI(t)
	session, spec := newID(), map[string]any{"browserVersion": 156, "locale": "de-DE"}
	first := decode[cloudapi.Authorization](t, a.ask(session, "spec", spec), 200)
	again := decode[cloudapi.Authorization](t, a.ask(session, "spec", spec), 200)
	if c := first.ProfileConfig; c == nil || !c.Ephemeral || c.BrowserVersion != 156 || *c.Locale != "de-DE" {
		t.Fatalf("got %+v", first)
	}
	if *again.SlotId != *first.SlotId || again.ProfileConfig.ProfileId != first.ProfileConfig.ProfileId {
		t.Errorf("repeated request: %+v", again)
	}
}

// TestAuthorize_ReturnsNetworkRulesOfOrganization: the configuration has them for a
// profile, for a spec, and after a repeated request.
func TestAuthorize_ReturnsNetworkRulesOfOrganization(t *testing.T) {
	a := newLicenseAPI(t)
	for _, want := range []string{"10.0.0.0/8", "192.168.0.0/16"} { // a change applies to the next launch
		_, err := a.db.Exec(`UPDATE organizations SET network = jsonb_build_object('connect', jsonb_build_object('deny', jsonb_build_array($1::text)))`, want)
		must(t, err)
		session := newID()
		configs := map[string]*cloudapi.ProfileConfig{
			"profile":  decode[cloudapi.Authorization](t, a.ask(session, "profileId", a.profile), 200).ProfileConfig,
			"repeated": decode[cloudapi.Authorization](t, a.ask(session, "profileId", a.profile), 200).ProfileConfig,
		}
		spec := newID()
		configs["spec"] = decode[cloudapi.Authorization](t, a.ask(spec, "spec", map[string]any{"browserVersion": 156}), 200).ProfileConfig
		for name, config := range configs {
			rules := config.OrganizationNetwork
			if rules == nil || rules.Connect == nil || !slices.Equal(*rules.Connect.Deny, []string{want}) || config.Network != nil {
				t.Errorf("%s: rules %+v, want %s", name, rules, want)
			}
		}
		a.do("DELETE", a.sessions()+"/"+session.String(), a.worker, nil).want(t, 200, "")
		a.do("DELETE", "/v1/profiles/"+configs["spec"].ProfileId.String()+"/sessions/"+spec.String(), a.worker, nil).want(t, 200, "")
	}
}

func TestAuthorize_SpecRefusedAtProfileLimit(t *testing.T) {
	a := newLicenseAPI(t)
	_, err := a.db.Exec(`UPDATE subscriptions SET base_profile_limit = 1 WHERE organization_id = $1`, a.org)
	must(t, err)
	got := decode[cloudapi.Authorization](t, a.ask(newID(), "spec", map[string]any{"browserVersion": 156}), 402)
	if got.Allowed || *got.Reason != cloudapi.RefusalReasonProfileLimit || got.Current != 0 || *got.Limit != 1 ||
		got.ProfileCount == nil || *got.ProfileCount != 1 {
		t.Errorf("got %+v, want no slot and one profile", got)
	}
}

// TestEndProfileSession_UnknownProfileNotFound: nothing is stored for an unknown
// profile. An unknown session of a known profile may have ended before its start
// arrived.
func TestEndProfileSession_UnknownProfileNotFound(t *testing.T) {
	a := newLicenseAPI(t)
	a.do("DELETE", "/v1/profiles/"+newID().String()+"/sessions/"+newID().String(), a.worker, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	var rows int
	must(t, a.db.Get(&rows, `SELECT count(*) FROM license_slots`))
	if rows != 0 {
		t.Errorf("got %d rows, want none", rows)
	}
	session := newID()
	a.do("DELETE", a.sessions()+"/"+session.String(), a.worker, nil).want(t, 200, "")
	a.start(session).want(t, 409, "RESOURCE_CONFLICT")
}

func TestAuthorize_SpecRequiresBrowserVersion(t *testing.T) {
	a := newLicenseAPI(t)
	got := a.ask(newID(), "spec", map[string]any{"os": "linux"})
	got.want(t, 400, "VALIDATION_ERROR")
	if len(got.fields) != 1 || got.fields[0] != "spec.browserVersion REQUIRED" {
		t.Errorf("got %v", got.fields)
	}
}

func TestAuthorize_RefusesBothSelectors(t *testing.T) {
	a := newLicenseAPI(t)
	request := map[string]any{
		"machineId": "worker-1", "bootId": a.boot, "sessionId": newID(),
		"profileId": a.profile, "spec": map[string]any{"browserVersion": 156},
	}
	got := a.wrong("POST", "/v1/license/authorize", a.worker, request)
	got.want(t, 400, "VALIDATION_ERROR")
	if len(got.fields) != 1 || got.fields[0] != "profileId INVALID_UNION" {
		t.Errorf("got %v", got.fields)
	}
	request["spec"] = nil
	a.do("POST", "/v1/license/authorize", a.worker, request).want(t, 200, "")
}

// failingConfig creates profiles whose configuration cannot be read.
type failingConfig struct{ ephemeralProfiles }

func (failingConfig) Config(context.Context, uuid.UUID, uuid.UUID) (profile.Config, error) {
	return profile.Config{}, errors.New("the database is away")
}

func TestAuthorize_ReleasesSlotWhenConfigFails(t *testing.T) {
	a := newLicenseAPI(t)
	session, spec := newID(), map[string]any{"browserVersion": 156}
	readable, broken := a.license, a.license
	broken.Profiles = failingConfig{a.license.Profiles.(ephemeralProfiles)}
	a.serve(licenseHandlers{License: broken})
	a.ask(session, "spec", spec).want(t, 500, "INTERNAL_ERROR")
	for deadline := time.Now().Add(10 * time.Second); a.overview().Current > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slot is still taken")
		}
	}

	a.serve(licenseHandlers{License: readable})
	first := decode[cloudapi.Authorization](t, a.ask(session, "spec", spec), 200)
	a.serve(licenseHandlers{License: broken})
	a.ask(session, "spec", spec).want(t, 500, "INTERNAL_ERROR")
	a.serve(licenseHandlers{License: readable})
	if again := decode[cloudapi.Authorization](t, a.ask(session, "spec", spec), 200); *again.SlotId != *first.SlotId {
		t.Errorf("the slot changed from %s to %s", *first.SlotId, *again.SlotId)
	}
}

func (a *licenseAPI) overview() cloudapi.LicenseSessions {
	a.t.Helper()
	return decode[cloudapi.LicenseSessions](a.t, a.do("GET", "/v1/license/sessions", a.worker, nil), 200)
}

func TestProfileSession_StartToEnd(t *testing.T) {
	a := newLicenseAPI(t)
	session, waiting := a.reserve(), a.reserve()
	answer := a.start(session)
	started := decode[cloudapi.SessionReport](t, answer, 201)
	if started.Status != "running" || started.SlotId == nil || answer.header.Get("Location") != a.sessions()+"/"+session.String() {
		t.Errorf("started: %+v at %q", started, answer.header.Get("Location"))
	}
	beat := decode[cloudapi.Heartbeat](t, a.do("POST", "/v1/license/sessions/heartbeat", a.worker, map[string]any{
		"machineId": "worker-1", "bootId": a.boot, "seq": a.seq + 1, "sessions": []uuid.UUID{session},
	}), 200)
	if !beat.Applied || len(beat.Accepted) != 1 || beat.NextHeartbeatSeconds < 15 || beat.NextHeartbeatSeconds > 45 {
		t.Errorf("heartbeat: %+v", beat)
	}
	got := a.overview()
	if got.Current != 2 || *got.Limit != 2 || got.RunningSessions != 1 || got.ReservedSlots != 1 ||
		got.HeartbeatTtlSeconds != 300 || got.UnreportedTtlSeconds != 21600 || len(got.Sessions) != 1 {
		t.Fatalf("charged: %+v", got)
	}
	if row := got.Sessions[0]; row.SessionId != session || row.MachineId != "worker-1" || row.HeartbeatAt == nil || row.Stale {
		t.Errorf("charged: %+v", row)
	}
	ended := decode[cloudapi.SessionReport](t, a.do("DELETE", a.sessions()+"/"+session.String(), a.worker,
		map[string]any{"status": "killed", "endReason": "idle"}), 200)
	if ended.Status != "killed" || *ended.EndReason != "idle" || ended.EndedAt == nil {
		t.Errorf("ended: %+v", ended)
	}
	decode[cloudapi.SessionReport](t, a.do("DELETE", a.sessions()+"/"+waiting.String(), a.worker, nil), 200)
	a.start(session).want(t, 409, "RESOURCE_CONFLICT")
	if got := a.overview(); got.Current != 0 || len(got.Sessions) != 0 {
		t.Errorf("charged at the end: %+v", got)
	}
}

func TestStartProfileSession_RefusedWithoutSlot(t *testing.T) {
	a := newLicenseAPI(t)
	a.reserve()
	a.reserve()
	got := a.start(newID())
	got.want(t, 402, "AUTHORIZATION_ERROR")
	if len(got.fields) != 1 || got.fields[0] != "profileId CUSTOM" {
		t.Errorf("got %v", got.fields)
	}
}

func TestReclaim_ReturnsEndedSessions(t *testing.T) {
	a := newLicenseAPI(t)
	a.reserve()
	a.reserve()
	_, err := a.db.Exec(`UPDATE license_slots SET lease_until = now() WHERE id = (SELECT id FROM license_slots LIMIT 1)`)
	must(t, err)
	got := decode[cloudapi.Reclaim](t, a.do("POST", "/v1/license/sessions/reclaim", a.worker, nil), 200)
	if got.Released != 1 || got.Current != 1 || *got.Limit != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestAuthorize_WaitsForASlot(t *testing.T) {
	a := newLicenseAPI(t)
	held := a.reserve()
	a.reserve()
	session := newID()
	wait := func(waitSeconds, pollSeconds int) reply {
		return a.do("POST", "/v1/license/authorize", a.worker, map[string]any{
			"machineId": "worker-1", "bootId": a.boot, "sessionId": session, "profileId": a.profile,
			"waitSeconds": waitSeconds, "pollSeconds": pollSeconds,
		})
	}
	refused := a.ask(newID(), "profileId", a.profile)
	if got := decode[cloudapi.Authorization](t, refused, 402); got.Queued != nil || refused.header.Get("Retry-After") != "5" {
		t.Errorf("without waiting: %+v, %v", got, refused.header)
	}
	queued := wait(600, 0)
	if got := decode[cloudapi.Authorization](t, queued, 402); got.Queued == nil || !*got.Queued || *got.QueuePosition != 1 || queued.header.Get("Retry-After") != "0" {
		t.Errorf("in the queue: %+v, %v", got, queued.header)
	}
	a.do("DELETE", a.sessions()+"/"+held.String(), a.worker, nil).want(t, 200, "")
	if got := decode[cloudapi.Authorization](t, wait(600, 25), 200); got.Current != 2 || got.ProfileConfig == nil {
		t.Errorf("granted %+v", got)
	}
	session = newID()
	if got := decode[cloudapi.Authorization](t, wait(1, 1), 402); got.Queued != nil || *got.Reason != cloudapi.RefusalReasonConcurrencyLimit {
		t.Errorf("after the wait: %+v", got)
	}
}
