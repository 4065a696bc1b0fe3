package profile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/settings"
)

// authority is the certificate of an authority.
const authority = `-----BEGIN CERTIFICATE-----
MIIBkDCCATegAwIBAgIUMFKYOor3hFqbXtv8kEfsUZloZHIwCgYIKoZIzj0EAwIw
HTEbMBkGA1UEAwwSRXhhbXBsZSBTdGFnaW5nIENBMCAXDTI2MTEyNzIxNTcyNVoY
DzIxMjYxMTAzMjE1NzI1WjAdMRswGQYDVQQDDBJFeGFtcGxlIFN0YWdpbmcgQ0Ew
WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR5fdc5URA/uvxw3RZ81ULJ6wZXL7mV
fKPWcXH+oAtfuepvA+ccrZSy4M7jF4k9qL4vdDoHiY1R1dneXwIHqiUwo1MwUTAd
BgNVHQ4EFgQUWpM8ZiB8m4H69M7auVVi4B16eWswHwYDVR0jBBgwFoAUWpM8ZiB8
m4H69M7auVVi4B16eWswDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBE
AiAYcUNzgt4Iwm0WRgx7PArHdocJ9CINwQ0KOj9FjpBR3wIgcouZDvKsh7xXBENs
sPzQUShd0ac/Trr3hUT83bn7zig=
-----END CERTIFICATE-----
`

// full returns fields that are all set.
func full() Draft {
	d := withProxy()
	d.Name, d.Notes, d.Tags = "Everything", "Notes", []string{"b", "a,\"{}"}
	d.OS, d.Persist, d.Metadata = new("windows"), true, map[string]string{"team": "checkout"}
	d.Identity = settings.Identity{OSVersion: "11", WindowsVersion: "11", OSArch: "x86", Model: "M", Renderer: "R", GPUName: "G"}
	d.Emulation = settings.Emulation{
		UserAgent: "UA", Locale: "de-DE", TimezoneID: "Europe/Berlin", ColorScheme: "dark",
		Viewport: &settings.Size{Width: 800, Height: 600}, Screen: &settings.Size{Width: 800, Height: 600},
		DeviceScaleFactor: 1.25, IsMobile: new(false), HasTouch: new(true),
	}
	d.Options = settings.Options{
		Geolocation: &settings.Geolocation{Latitude: 52.52, Longitude: 13.405, Accuracy: new(50.0)},
		Permissions: []string{"camera"}, ExtraHTTPHeaders: map[string]string{"X-Test": "1"},
		IgnoreHTTPSErrors: new(true), Args: []string{"--mute-audio"}, StartURLs: []string{"https://example.com/"},
	}
	d.Record, d.CACertificates = []string{"video", "events"}, []string{authority}
	return d
}

func TestGet_ReturnsWhatWasCreated(t *testing.T) {
	f := newFixture(t)
	draft := full()
	created := f.create(draft)
	want := Profile{ID: created.ID, OrganizationID: f.org, Fields: draft.Fields, HasProxyPassword: true, Version: 1,
		CreatedBy: &f.user, CreatedAt: noon, UpdatedAt: noon}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	f.live.set(created.ID, 2)
	want.ActiveSessions = 2
	if diff := cmp.Diff(want, f.get(created.ID)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestProxyPassword_EncryptedAndOnlyInConfig(t *testing.T) {
	f := newFixture(t)
	p := f.create(withProxy())
	var whole string
	if err := f.svc.DB.GetContext(t.Context(), &whole, `SELECT profiles::text || encode(proxy_secret, 'escape') FROM profiles`); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(whole, "hunter2") || !strings.Contains(whole, "robot") {
		t.Errorf("the row is %s", whole)
	}
	config, err := f.svc.Config(t.Context(), f.org, p.ID)
	if err != nil || config.ProxyPassword == nil || *config.ProxyPassword != hunter {
		t.Fatalf("config has password %v, %v", config.ProxyPassword, err)
	}
	if diff := cmp.Diff(p, config.Profile); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	other := f.create(named("Other"))
	f.exec(`UPDATE profiles SET proxy_secret = (SELECT proxy_secret FROM profiles WHERE id = $1) WHERE id = $2`, p.ID, other.ID)
	if config, err := f.svc.Config(t.Context(), f.org, other.ID); err == nil {
		t.Errorf("a moved ciphertext was decrypted: %v", *config.ProxyPassword)
	}
}

func TestForeignProfile_NotFound(t *testing.T) {
	f := newFixture(t)
	p := f.create(named("Mine"))
	foreign := f.organization(nil)
	ctx := t.Context()
	for name, act := range map[string]func(org, id uuid.UUID) error{
		"get":    func(org, id uuid.UUID) error { _, err := f.svc.Get(ctx, org, id); return err },
		"config": func(org, id uuid.UUID) error { _, err := f.svc.Config(ctx, org, id); return err },
		"update": func(org, id uuid.UUID) error {
			_, err := f.svc.Update(ctx, org, id, nil, []byte(`{"name":"x"}`))
			return err
		},
		"duplicate": func(org, id uuid.UUID) error { _, err := f.svc.Duplicate(ctx, org, id, f.user, nil); return err },
		"delete":    func(org, id uuid.UUID) error { return f.svc.Delete(ctx, org, id, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			wantFault(t, act(foreign, p.ID), fault.NotFound)
			wantFault(t, act(f.org, newID()), fault.NotFound)
		})
	}
	if f.get(p.ID).Version != 1 || f.rows(foreign) != 0 {
		t.Error("a refused change changed the profile")
	}
	if names, err := Names(ctx, f.svc.DB, foreign, []uuid.UUID{p.ID}); err != nil || len(names) != 0 {
		t.Errorf("foreign names %v, %v", names, err)
	}
	if names, err := Names(ctx, f.svc.DB, f.org, []uuid.UUID{p.ID, newID()}); err != nil || !cmp.Equal(names, map[uuid.UUID]string{p.ID: "Mine"}) {
		t.Errorf("names %v, %v", names, err)
	}
}

func TestList_Filters(t *testing.T) {
	f := newFixture(t)
	for _, d := range []Draft{
		{Fields: Fields{Name: "100% Cotton", Notes: "under_score", BrowserVersion: 156, OS: new("linux"), Tags: []string{"a", "b"}}},
		{Fields: Fields{Name: "100 Wool", Notes: `back\slash`, BrowserVersion: 150, OS: new("macos"), Tags: []string{"ab"}}},
		{Fields: Fields{Name: "ÜBER", Notes: "underscore", BrowserVersion: 150, Tags: []string{"b"}}},
	} {
		f.clock.Advance(time.Second)
		f.create(d)
	}
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"nothing":               {Filter{}, []string{"100% Cotton", "100 Wool", "ÜBER"}},
		"search in any case":    {Filter{Search: "cOTTon"}, []string{"100% Cotton"}},
		"search in the notes":   {Filter{Search: "UNDER"}, []string{"100% Cotton", "ÜBER"}},
		"percent is a percent":  {Filter{Search: "100%"}, []string{"100% Cotton"}},
		"underscore is one":     {Filter{Search: "r_s"}, []string{"100% Cotton"}},
		"backslash is one":      {Filter{Search: `k\s`}, []string{"100 Wool"}},
		"quotes are harmless":   {Filter{Search: `'; --`}, nil},
		"os":                    {Filter{OS: new("macos")}, []string{"100 Wool"}},
		"browser version":       {Filter{BrowserVersion: new(int32(150))}, []string{"100 Wool", "ÜBER"}},
		"a tag is a whole tag":  {Filter{Tag: new("b")}, []string{"100% Cotton", "ÜBER"}},
		"all of them at a time": {Filter{Search: "1", OS: new("linux"), BrowserVersion: new(int32(156)), Tag: new("a")}, []string{"100% Cotton"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := f.svc.List(t.Context(), f.org, test.filter, page.Request{Page: 1, Limit: 20, SortBy: "createdAt"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(found.Items)); diff != "" || found.Total != len(test.want) {
				t.Errorf("total %d (-want +got):\n%s", found.Total, diff)
			}
		})
	}
}

func TestList_SortsAndPages(t *testing.T) {
	f := newFixture(t)
	versions := map[string]int32{"b": 150, "A": 156, "c": 153}
	for _, name := range []string{"b", "A", "c"} {
		f.clock.Advance(time.Second)
		f.create(Draft{Fields: Fields{Name: name, BrowserVersion: versions[name]}})
	}
	f.exec(`UPDATE profiles SET last_used_at = created_at WHERE name = 'A'`)
	f.exec(`UPDATE profiles SET updated_at = '2030-01-01Z' WHERE name = 'b'`)
	for sortBy, want := range map[string]string{
		"createdAt": "bAc", "updatedAt": "Acb", "name": "Abc", "browserVersion": "bcA", "lastUsedAt": "bcA",
	} {
		for _, desc := range []bool{false, true} {
			found, err := f.svc.List(t.Context(), f.org, Filter{}, page.Request{Page: 1, Limit: 20, SortBy: sortBy, Desc: desc})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(names(found.Items), ""), withDirection(want, desc); got != want {
				t.Errorf("by %s, descending %v: %s; want %s", sortBy, desc, got, want)
			}
		}
	}
	found, err := f.svc.List(t.Context(), f.org, Filter{}, page.Request{Page: 2, Limit: 2, SortBy: "createdAt", Desc: true})
	if err != nil || strings.Join(names(found.Items), "") != "b" || found.Total != 3 || found.HasNext() || !found.HasPrev() {
		t.Errorf("page 2: %v of %d, %v", names(found.Items), found.Total, err)
	}
	found, err = f.svc.List(t.Context(), f.organization(nil), Filter{}, page.Request{Page: 1, Limit: 20})
	if err != nil || found.Items == nil || len(found.Items) != 0 || found.Total != 0 {
		t.Errorf("another organization's list: %+v, %v", found, err)
	}
}

func TestList_CountsLiveSessions(t *testing.T) {
	f := newFixture(t)
	f.create(named("Idle"))
	p := f.create(named("Busy"))
	f.live.set(p.ID, 3)
	found, err := f.svc.List(t.Context(), f.org, Filter{}, page.Request{Page: 1, Limit: 20, SortBy: "name"})
	if err != nil || found.Items[0].ActiveSessions != 3 || found.Items[1].ActiveSessions != 0 {
		t.Errorf("got %+v, %v", found.Items, err)
	}
}

func TestDelete_RefusedWhileSessionsRun(t *testing.T) {
	f := newFixture(t)
	p := f.create(named("Busy"))
	f.live.set(p.ID, 1)
	wantFault(t, f.svc.Delete(t.Context(), f.org, p.ID, nil), fault.Conflict)
	f.live.set(p.ID, 0)
	wantFault(t, f.svc.Delete(t.Context(), f.org, p.ID, new(int64(2))), fault.Conflict)
	if err := f.svc.Delete(t.Context(), f.org, p.ID, new(int64(1))); err != nil {
		t.Fatal(err)
	}
	wantFault(t, f.svc.Delete(t.Context(), f.org, p.ID, nil), fault.NotFound)
}

func TestStats(t *testing.T) {
	f := newFixture(t)
	f.org = f.organization(new(3))
	p := f.create(named("One"))
	launched := f.ephemeral(Draft{})
	f.live.set(p.ID, 2)
	got, err := f.svc.Stats(t.Context(), f.org)
	want := Stats{TotalProfiles: 1, EphemeralProfiles: 1, ActiveProfiles: 1, Ceilings: Ceilings{ProfileLimit: new(3), MemberLimit: new(5)}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	f.inTx(func(tx *sqlx.Tx) error { return f.svc.AbandonEphemeral(t.Context(), tx, f.org, []uuid.UUID{launched}) })
	if got, err := f.svc.Stats(t.Context(), f.org); err != nil || got.EphemeralProfiles != 0 {
		t.Errorf("got %d ephemeral profiles, %v; abandoned profiles must not count", got.EphemeralProfiles, err)
	}
}

// TestStats_MatchListAndLimit: totalProfiles equals the length of the list, and the
// limit applies to the sum with ephemeralProfiles.
func TestStats_MatchListAndLimit(t *testing.T) {
	f := newFixture(t)
	f.org = f.organization(new(3))
	f.create(named("One"))
	f.ephemeral(Draft{})
	f.ephemeral(Draft{})
	stats, err := f.svc.Stats(t.Context(), f.org)
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.svc.List(t.Context(), f.org, Filter{}, page.Request{Page: 1, Limit: 20, SortBy: "createdAt"})
	if err != nil || list.Total != stats.TotalProfiles {
		t.Errorf("the list has %d profiles, %v; stats have %d", list.Total, err, stats.TotalProfiles)
	}
	_, err = f.svc.Create(t.Context(), f.org, f.user, named("Fourth"))
	wantLimitError(t, err, LimitError{Current: stats.TotalProfiles + stats.EphemeralProfiles, Limit: *stats.ProfileLimit})
}

func names(profiles []Profile) []string {
	var out []string
	for _, p := range profiles {
		out = append(out, p.Name)
	}
	return out
}

func withDirection(s string, desc bool) string {
	if !desc {
		return s
	}
	letters := []byte(s)
	slices.Reverse(letters)
	return string(letters)
}
