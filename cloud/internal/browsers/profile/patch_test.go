package profile

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
)

func TestUpdate_MergesPatch(t *testing.T) {
	for name, test := range map[string]struct {
		patch string
		want  func(p *Profile)
	}{
		"what is absent stays":       {`{"name":"New"}`, func(p *Profile) { p.Name = "New" }},
		"null clears a setting":      {`{"timezoneId":null,"geolocation":null,"isMobile":null}`, func(p *Profile) { p.TimezoneID, p.Geolocation, p.IsMobile = "", nil, nil }},
		"null clears os":             {`{"os":null,"windowsVersion":null}`, func(p *Profile) { p.OS, p.WindowsVersion = nil, "" }},
		"an object is replaced":      {`{"geolocation":{"latitude":1,"longitude":2}}`, func(p *Profile) { p.Geolocation = &settings.Geolocation{Latitude: 1, Longitude: 2} }},
		"lists are replaced":         {`{"tags":["z"],"args":[],"permissions":["midi"]}`, func(p *Profile) { p.Tags, p.Args, p.Permissions = []string{"z"}, nil, []string{"midi"} }},
		"a recording is replaced":    {`{"record":["frames"]}`, func(p *Profile) { p.Record = []string{"frames"} }},
		"a recording is turned off":  {`{"record":[]}`, func(p *Profile) { p.Record = nil }},
		"authorities are removed":    {`{"caCertificates":[]}`, func(p *Profile) { p.CACertificates = nil }},
		"an empty list empties":      {`{"tags":[]}`, func(p *Profile) { p.Tags = []string{} }},
		"maps are replaced":          {`{"metadata":{"a":"b"},"extraHTTPHeaders":{}}`, func(p *Profile) { p.Metadata, p.ExtraHTTPHeaders = map[string]string{"a": "b"}, nil }},
		"columns change too":         {`{"browserVersion":150,"os":"windows","notes":"","persist":false}`, func(p *Profile) { p.BrowserVersion, p.Notes, p.Persist = 150, "", false }},
		"the proxy is merged":        {`{"proxy":{"username":"eve"}}`, func(p *Profile) { p.Proxy.Username = "eve" }},
		"null in the proxy clears":   {`{"proxy":{"bypass":null}}`, func(p *Profile) { p.Proxy.Bypass = "" }},
		"null removes the proxy":     {`{"proxy":null}`, func(p *Profile) { p.Proxy, p.HasProxyPassword = nil, false }},
		"a new server forgets":       {`{"proxy":{"server":"http://b:1"}}`, func(p *Profile) { p.Proxy.Server, p.HasProxyPassword = "http://b:1", false }},
		"the same server does not":   {`{"proxy":{"server":"http://proxy.example.com:3128"}}`, func(*Profile) {}},
		"null forgets the password":  {`{"proxy":{"password":null}}`, func(p *Profile) { p.HasProxyPassword = false }},
		"empty forgets the password": {`{"proxy":{"password":""}}`, func(p *Profile) { p.HasProxyPassword = false }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			want := f.create(full())
			f.clock.Advance(time.Minute)
			got, err := f.svc.Update(t.Context(), f.org, want.ID, nil, json.RawMessage(test.patch))
			if err != nil {
				t.Fatal(err)
			}
			test.want(&want)
			want.Version, want.UpdatedAt = 2, noon.Add(time.Minute)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, f.get(want.ID)); diff != "" {
				t.Errorf("read again (-want +got):\n%s", diff)
			}
			if password := f.password(want.ID); (password != nil) != want.HasProxyPassword {
				t.Errorf("the password is %v", password)
			}
		})
	}
}

func TestUpdate_ReplacesPassword(t *testing.T) {
	for name, patch := range map[string]string{
		"alone":             `{"proxy":{"password":"new"}}`,
		"with a new server": `{"proxy":{"password":"new","server":"socks5://b:1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p := f.create(withProxy())
			if _, err := f.svc.Update(t.Context(), f.org, p.ID, nil, json.RawMessage(patch)); err != nil {
				t.Fatal(err)
			}
			if got := f.password(p.ID); got == nil || *got != "new" {
				t.Errorf("the password is %v", got)
			}
		})
	}
	t.Run("with the first proxy", func(t *testing.T) {
		f := newFixture(t)
		p := f.create(named("Bare"))
		_, err := f.svc.Update(t.Context(), f.org, p.ID, nil, json.RawMessage(`{"proxy":{"username":"x"}}`))
		if details := wantFault(t, err, fault.Validation).Details; len(details) != 1 || details[0].Field != "proxy.server" || details[0].Code != fault.Required {
			t.Errorf("details %+v", details)
		}
		_, err = f.svc.Update(t.Context(), f.org, p.ID, nil, json.RawMessage(`{"proxy":{"server":"http://a:1","password":"new"}}`))
		if got := f.password(p.ID); err != nil || got == nil || *got != "new" {
			t.Errorf("the password is %v, %v", got, err)
		}
	})
}

func TestUpdate_RefusalChangesNothing(t *testing.T) {
	f := newFixture(t)
	p := f.create(full())
	_, err := f.svc.Update(t.Context(), f.org, p.ID, nil, json.RawMessage(`{"name":"New","os":"linux"}`))
	wantFault(t, err, fault.Validation)
	_, err = f.svc.Update(t.Context(), f.org, p.ID, new(int64(2)), json.RawMessage(`{"name":"New"}`))
	wantFault(t, err, fault.Conflict)
	if diff := cmp.Diff(p, f.get(p.ID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUpdate_ChecksVersionAfterWaiting(t *testing.T) {
	f := newFixture(t)
	p := f.create(named("P"))
	late := make(chan error, 1)
	f.inTx(func(tx *sqlx.Tx) error {
		r, err := find(t.Context(), tx, f.org, p.ID, true)
		if err != nil {
			return err
		}
		go func() {
			_, err := f.svc.Update(t.Context(), f.org, p.ID, new(int64(1)), json.RawMessage(`{"notes":"late"}`))
			late <- err
		}()
		f.awaitLockWaiter()
		r.Notes, r.Version = "early", 2
		return r.update(t.Context(), tx)
	})
	wantFault(t, <-late, fault.Conflict)
	if p := f.get(p.ID); p.Notes != "early" || p.Version != 2 {
		t.Errorf("got %q, version %d", p.Notes, p.Version)
	}
}

// awaitLockWaiter waits until another transaction waits for a row lock.
func (f *fixture) awaitLockWaiter() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	for waiting := false; !waiting; {
		err := f.svc.DB.GetContext(ctx, &waiting, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		if err != nil {
			f.t.Fatal(err)
		}
	}
}
