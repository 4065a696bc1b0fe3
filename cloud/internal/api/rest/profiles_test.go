package rest_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/cloud/internal/tenancy/usage"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// profilesAPI is the part of the cloud with profiles and the feed.
type profilesAPI struct {
	accounts // sends the requests
	live     liveSessions
	feed     *activity.Feed
	user     uuid.UUID
	org      uuid.UUID // on the free plan, with a limit of three profiles
	requests *usage.Service
	caller   credential // a member of org
	worker   credential // of org
	handlers profileHandlers
}

type profileHandlers struct {
	unimplemented
	rest.Profiles
	rest.Sessions
}

func newProfilesAPI(t *testing.T) *profilesAPI {
	t.Helper()
	fake := clock.NewFake(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	a := &profilesAPI{accounts: accounts{t: t, db: dbtest.New(t), clock: fake}, live: liveSessions{}, user: uuid.Must(uuid.NewV7())}
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	must(t, err)
	a.feed = &activity.Feed{DB: a.db, Clock: fake}
	service := &profile.Service{DB: a.db, Clock: fake, Sealer: box, Limits: planLimits{plan.New(a.db), a.db}, LiveSessions: a.live}
	_, err = a.db.Exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'a@example.com', 'A', '', now())`, a.user)
	must(t, err)
	a.org = a.organization()
	a.caller, a.worker = bearer(a.org.String()), apiKey(a.org.String())
	a.requests = usage.New(usage.Options{DB: a.db, System: a.db, Limits: planLimits{plan.New(a.db), a.db}, Clock: fake})
	a.handlers = profileHandlers{Profiles: rest.Profiles{Profiles: service, Requests: a.requests}, Sessions: rest.Sessions{Feed: a.feed}}
	a.serve(a.handlers)
	return a
}

// serve trusts the organization in the credential.
func (a *profilesAPI) serve(handlers cloudapi.StrictServerInterface) {
	a.t.Helper()
	document := contracttest.Load(a.t, "cloud.yaml")
	believe := func(header, prefix string) oapi.Authenticator {
		return func(r *http.Request) (context.Context, error) {
			orgID, err := uuid.Parse(strings.TrimPrefix(r.Header.Get(header), prefix))
			if err != nil {
				return nil, oapi.ErrNoCredential
			}
			return auth.WithCaller(r.Context(), auth.Caller{OrgID: orgID, UserID: a.user, Role: auth.Member}), nil
		}
	}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"dashboardSession": believe("Cookie", "svc_session="),
		"dashboardBearer":  believe("Authorization", "Bearer "),
		"organizationKey":  believe("X-API-Key", ""),
	}})
	must(a.t, err)
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(handlers, nil))
	server := httptest.NewServer(e)
	a.t.Cleanup(server.Close)
	a.url, a.client = server.URL, contracttest.New(a.t, document, nil)
}

func (a *profilesAPI) organization() uuid.UUID {
	a.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := a.db.Exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, id, id.String())
	must(a.t, err)
	tx, err := a.db.Beginx()
	must(a.t, err)
	must(a.t, plan.New(a.db).Subscribe(a.t.Context(), tx, id, plan.Free, a.clock.Now()))
	must(a.t, tx.Commit())
	return id
}

func (a *profilesAPI) create(body map[string]any) cloudapi.Profile {
	a.t.Helper()
	return decode[cloudapi.Profile](a.t, a.do("POST", "/v1/profiles", a.caller, body), 201)
}

func path(p cloudapi.Profile) string { return "/v1/profiles/" + p.Id.String() }

type planLimits struct {
	*plan.Service
	db *sqlx.DB
}

func (p planLimits) Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (profile.Ceilings, error) {
	l, err := p.Limits(ctx, q, orgID)
	return profile.Ceilings{ProfileLimit: l.Profiles, MemberLimit: l.Members, APIRpmLimit: l.APIRpm, APIRphLimit: l.APIRph}, err
}

func (p planLimits) RequestLimits(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (perMinute, perHour *int, err error) {
	l, err := p.Limits(ctx, q, orgID)
	return l.APIRpm, l.APIRph, err
}

type liveSessions map[uuid.UUID]int

func (l liveSessions) LiveByProfile(context.Context, sqlx.QueryerContext, uuid.UUID, []uuid.UUID) (map[uuid.UUID]int, error) {
	return l, nil
}

func (l liveSessions) HeldByProfile(_ context.Context, _ sqlx.QueryerContext, _, id uuid.UUID) (int, error) {
	return l[id], nil
}

func (l liveSessions) LiveProfiles(context.Context, sqlx.QueryerContext, uuid.UUID) (int, error) {
	return len(l), nil
}

var proxied = map[string]any{"name": "Proxied", "browserVersion": 156, "tags": []string{"a"}, "os": "linux",
	"proxy": map[string]any{"server": "http://proxy.example.com:3128", "username": "robot", "password": "hunter2"}}

func TestProfile_CreateGetUpdateDelete(t *testing.T) {
	a := newProfilesAPI(t)
	answer := a.do("POST", "/v1/profiles", a.caller, proxied)
	p := decode[cloudapi.Profile](t, answer, 201)
	if answer.header.Get("Location") != path(p) || answer.header.Get("ETag") != `"1"` {
		t.Errorf("headers %v", answer.header)
	}
	if *p.CreatedBy != a.user || p.OrganizationId != a.org || !p.Proxy.HasPassword {
		t.Errorf("created %+v", p)
	}
	answer = a.do("GET", path(p), a.caller, nil)
	if diff := cmp.Diff(p, decode[cloudapi.Profile](t, answer, 200)); diff != "" || answer.header.Get("ETag") != `"1"` {
		t.Errorf("read, ETag %s (-want +got):\n%s", answer.header.Get("ETag"), diff)
	}
	if strings.Contains(answer.body, "hunter2") {
		t.Error("the response contains the password")
	}

	a.do("PATCH", path(p), a.caller.with("If-Match", `"2"`), map[string]any{"name": "B"}).want(t, 409, "RESOURCE_CONFLICT")
	answer = a.do("PATCH", path(p), a.caller.with("If-Match", `"1"`), map[string]any{"name": "B", "os": nil})
	if p = decode[cloudapi.Profile](t, answer, 200); p.Name != "B" || p.Os != nil || answer.header.Get("ETag") != `"2"` {
		t.Errorf("changed to %+v, ETag %s", p, answer.header.Get("ETag"))
	}
	a.do("PATCH", path(p), a.caller.with("If-Match", "*"), map[string]any{"notes": "n"}).want(t, 200, "")
	a.do("PATCH", path(p), a.caller, map[string]any{"proxy": map[string]any{"username": "eve"}}).want(t, 200, "")

	a.live[p.Id] = 1
	a.do("DELETE", path(p), a.caller, nil).want(t, 409, "RESOURCE_CONFLICT")
	delete(a.live, p.Id)
	a.do("DELETE", path(p), a.caller.with("If-Match", `"1"`), nil).want(t, 409, "RESOURCE_CONFLICT")
	a.do("DELETE", path(p), a.caller.with("If-Match", `"4"`), nil).want(t, 200, "")
	a.do("GET", path(p), a.caller, nil).want(t, 404, "RESOURCE_NOT_FOUND")
}

func TestDuplicateProfile_WithName(t *testing.T) {
	a := newProfilesAPI(t)
	p := a.create(proxied)
	answer := a.do("POST", path(p)+"/duplicate", a.caller, nil)
	duplicate := decode[cloudapi.Profile](t, answer, 201)
	if duplicate.Name != "Proxied (copy)" || !duplicate.Proxy.HasPassword || answer.header.Get("Location") != path(duplicate) || answer.header.Get("ETag") != `"1"` {
		t.Errorf("got %+v, %v", duplicate, answer.header)
	}
	duplicate = decode[cloudapi.Profile](t, a.do("POST", path(p)+"/duplicate", a.caller, map[string]any{"name": "Duplicate"}), 201)
	if duplicate.Name != "Duplicate" {
		t.Errorf("named %q", duplicate.Name)
	}
}

func TestCreateProfile_RefusesAtLimit(t *testing.T) {
	a := newProfilesAPI(t)
	p := a.create(proxied)
	a.create(proxied)
	a.create(proxied)
	for _, answer := range []reply{
		a.do("POST", "/v1/profiles", a.caller, proxied),
		a.do("POST", path(p)+"/duplicate", a.caller, nil),
	} {
		answer.want(t, 403, "AUTHORIZATION_ERROR")
		if !cmp.Equal(answer.fields, []string{"profileLimit CUSTOM"}) || !strings.Contains(answer.body, `{"current":3,"limit":3}`) {
			t.Errorf("details: %s", answer.body)
		}
	}
	stats := decode[cloudapi.ProfileStats](t, a.do("GET", "/v1/profiles/stats", a.caller, nil), 200)
	if stats.TotalProfiles != 3 || stats.ActiveProfiles != 0 || *stats.ProfileLimit != 3 || *stats.ApiRphLimit != 1000 {
		t.Errorf("stats %+v", stats)
	}
}

func TestGetProfileStats_ReturnsRemainingRequests(t *testing.T) {
	a := newProfilesAPI(t)
	for range 3 {
		a.requests.Count(a.org)
	}
	stats := decode[cloudapi.ProfileStats](t, a.do("GET", "/v1/profiles/stats", a.caller, nil), 200)
	if stats.ApiRpmUsed != 3 || *stats.ApiRpmRemaining != int64(*stats.ApiRpmLimit)-3 || stats.ApiRphUsed != 3 || *stats.ApiRphRemaining != 997 {
		t.Errorf("stats %+v", stats)
	}
	_, err := a.db.Exec(`UPDATE subscriptions SET base_api_rpm_limit = NULL, base_api_rph_limit = 2 WHERE organization_id = $1`, a.org)
	must(t, err)
	stats = decode[cloudapi.ProfileStats](t, a.do("GET", "/v1/profiles/stats", a.caller, nil), 200)
	if stats.ApiRpmUsed != 3 || stats.ApiRpmRemaining != nil || *stats.ApiRphRemaining != 0 {
		t.Errorf("no limit per minute, exceeded limit per hour: got %+v", stats)
	}
}

func TestGetProfileConfig_RequiresKeyAndReturnsPassword(t *testing.T) {
	a := newProfilesAPI(t)
	p := a.create(proxied)
	config := decode[cloudapi.ProfileConfig](t, a.do("GET", path(p)+"/config", a.worker, nil), 200)
	if config.Proxy.Password == nil || *config.Proxy.Password != "hunter2" || config.ProfileId != p.Id {
		t.Errorf("config %+v", config)
	}
	_, err := a.db.Exec(`UPDATE organizations SET network = '{"maxBytes": 1000}' WHERE id = $1`, a.org)
	must(t, err)
	config = decode[cloudapi.ProfileConfig](t, a.do("GET", path(p)+"/config", a.worker, nil), 200)
	if rules := config.OrganizationNetwork; rules == nil || *rules.MaxBytes != 1000 || config.Network != nil {
		t.Errorf("network rules: %+v of the organization, %+v of the profile", rules, config.Network)
	}
	a.wrong("GET", path(p)+"/config", a.caller, nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.wrong("GET", path(p), a.worker, nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func TestProfile_ForeignOrganizationNotFound(t *testing.T) {
	a := newProfilesAPI(t)
	p := a.create(proxied)
	foreign := a.organization().String()
	for _, answer := range []reply{
		a.do("GET", path(p), bearer(foreign), nil),
		a.do("PATCH", path(p), bearer(foreign), map[string]any{"name": "x"}),
		a.do("DELETE", path(p), bearer(foreign), nil),
		a.do("POST", path(p)+"/duplicate", bearer(foreign), nil),
		a.do("GET", path(p)+"/config", apiKey(foreign), nil),
	} {
		answer.want(t, 404, "RESOURCE_NOT_FOUND")
	}
	list := decode[cloudapi.ProfileList](t, a.do("GET", "/v1/profiles", bearer(foreign), nil), 200)
	if list.Pagination.Total != 0 {
		t.Errorf("the list has %d", list.Pagination.Total)
	}
}

func TestCreateProfile_RefusesNullListItems(t *testing.T) {
	a := newProfilesAPI(t)
	for _, list := range []string{"tags", "permissions", "args", "startUrls"} {
		got := a.wrong("POST", "/v1/profiles", a.caller, map[string]any{"name": "N", "browserVersion": 156, list: []string{}})
		got.want(t, 400, "VALIDATION_ERROR")
		if len(got.fields) != 1 || got.fields[0] != list+" ARRAY_TOO_SHORT" {
			t.Errorf("%s: %v", list, got.fields)
		}
	}
}

func TestProfiles_NullHandling(t *testing.T) {
	a := newProfilesAPI(t)
	created := a.create(map[string]any{
		"name": "N", "browserVersion": 156, "notes": nil, "tags": []string{"a"}, "permissions": nil, "proxy": nil, "locale": "de-DE", "persist": nil,
	})
	if created.Notes != "" || created.Persist || len(created.Tags) != 1 {
		t.Errorf("created %+v", created)
	}
	changed := decode[cloudapi.Profile](t, a.do("PATCH", path(created), a.caller, map[string]any{"name": nil, "tags": nil, "locale": nil, "notes": "n"}), 200)
	if changed.Name != "N" || len(changed.Tags) != 1 || changed.Locale != nil || changed.Notes != "n" {
		t.Errorf("changed to %+v", changed)
	}
	emptied := decode[cloudapi.Profile](t, a.do("PATCH", path(created), a.caller, map[string]any{"tags": []string{}}), 200)
	if len(emptied.Tags) != 0 {
		t.Errorf("tags %v", emptied.Tags)
	}
}

func TestListProfiles_FiltersSortsAndPages(t *testing.T) {
	a := newProfilesAPI(t)
	a.create(proxied)
	a.create(map[string]any{"name": "b 100%", "browserVersion": 150, "os": "macos"})
	a.create(map[string]any{"name": "C", "browserVersion": 153, "tags": []string{"b"}})
	for query, want := range map[string]string{
		"sortBy=name&sortOrder=asc":         "b 100%,C,Proxied",
		"sortBy=browserVersion":             "Proxied,C,b 100%",
		"search=100%25":                     "b 100%",
		"os=macos":                          "b 100%",
		"browserVersion=153":                "C",
		"tag=a":                             "Proxied",
		"limit=1&page=2&sortBy=name":        "C",
		"limit=1&page=4&sortBy=name":        "",
		"tag=a&os=linux&browserVersion=150": "",
	} {
		list := decode[cloudapi.ProfileList](t, a.do("GET", "/v1/profiles?"+query, a.caller, nil), 200)
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
	a.wrong("GET", "/v1/profiles?sortBy=id", a.caller, nil).want(t, 400, "VALIDATION_ERROR")
}

func TestCreateProfile_ReportsEveryError(t *testing.T) {
	a := newProfilesAPI(t)
	answer := a.do("POST", "/v1/profiles", a.caller, map[string]any{"name": "A", "browserVersion": 156, "os": "linux",
		"windowsVersion": "11", "timezoneId": "Mars/Base", "args": []string{"--no-sandbox"},
		"viewport": map[string]int{"width": 800, "height": 600}, "screen": map[string]int{"width": 640, "height": 600},
		"extraHTTPHeaders": map[string]string{"Host": "x"}})
	answer.want(t, 400, "VALIDATION_ERROR")
	want := []string{"windowsVersion CUSTOM", "timezoneId CUSTOM", "viewport CUSTOM", "args[0] CUSTOM", "extraHTTPHeaders.Host CUSTOM"}
	if diff := cmp.Diff(want, answer.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestListSessions_FiltersAndPages(t *testing.T) {
	a := newProfilesAPI(t)
	profileID, now := uuid.Must(uuid.NewV7()), a.clock.Now()
	var starts []activity.Start
	for i, machine := range []string{"worker-1", "worker-2"} {
		starts = append(starts, activity.Start{SessionID: uuid.Must(uuid.NewV7()), OrganizationID: a.org, ProfileID: profileID,
			ProfileName: "P", MachineID: machine, LaunchID: uuid.Must(uuid.NewV7()), BrowserVersion: 156,
			Labels:    &activity.Labels{Name: machine, Metadata: activity.Metadata{"machine": machine, "run": "1=2"}},
			StartedAt: now.Add(time.Duration(i) * time.Minute)})
	}
	tx, err := a.db.Beginx()
	must(t, err)
	must(t, a.feed.Started(t.Context(), tx, starts))
	must(t, a.feed.Ended(t.Context(), tx, []activity.End{{SessionID: starts[0].SessionID, OrganizationID: a.org,
		Status: "exited", EndReason: "crash", EndedAt: now.Add(90*time.Second + 500*time.Millisecond)}}))
	must(t, tx.Commit())
	a.clock.Advance(time.Hour)

	for query, want := range map[string]int{
		"": 2, "status=exited": 1, "profileId=" + profileID.String(): 2, "profileId=" + a.org.String(): 0, "machineId=worker-2": 1,
		"name=worker-1": 1, "name=worker": 0, "metadata=run%3D1%3D2": 2, "metadata=run=1%3D2&metadata=machine=worker-2": 1, "metadata=run=": 0,
		"from=2026-11-21T12:00:30Z": 1, "to=2026-11-21T12:00:30Z": 1, "limit=1&page=2&sortBy=endedAt": 1,
	} {
		list := decode[cloudapi.SessionList](t, a.do("GET", "/v1/sessions?"+query, a.caller, nil), 200)
		if len(list.Items) != want {
			t.Errorf("%s: %d items; want %d", query, len(list.Items), want)
		}
	}
	list := decode[cloudapi.SessionList](t, a.do("GET", "/v1/sessions", a.caller, nil), 200)
	running, ended := list.Items[0], list.Items[1]
	if *running.Name != "worker-2" || running.Metadata["machine"] != "worker-2" {
		t.Errorf("got the name %v and the labels %v", running.Name, running.Metadata)
	}
	if running.DurationSeconds != 59*60 || running.EndReason != nil || ended.DurationSeconds != 90 || *ended.EndReason != "crash" {
		t.Errorf("got %+v and %+v", running, ended)
	}
	for _, query := range []string{"name=", "metadata=run", "metadata==1"} {
		a.wrong("GET", "/v1/sessions?"+query, a.caller, nil).want(t, 400, "VALIDATION_ERROR")
	}
	foreign := decode[cloudapi.SessionList](t, a.do("GET", "/v1/sessions", bearer(a.organization().String()), nil), 200)
	if total := foreign.Pagination.Total; total == nil || *total != 0 {
		t.Errorf("another organization sees %v", total)
	}
}
