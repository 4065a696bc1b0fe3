package launch_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// dataStore adapts a profiledata.Local, as the worker does.
type dataStore struct{ store *profiledata.Local }

func newDataStore(t *testing.T, dir string, log *slog.Logger) dataStore {
	t.Helper()
	return dataStore{openStore(t, dir, 1<<30, log)}
}

func openStore(t *testing.T, dir string, maxBytes int64, log *slog.Logger) *profiledata.Local {
	t.Helper()
	store, err := profiledata.OpenLocal(profiledata.LocalOptions{Dir: dir, Versions: 3, MaxBytes: maxBytes, Clock: clock.System{}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (k dataStore) Acquire(_ context.Context, use launch.DataUse) (launch.SavedData, error) {
	if use.ReadOnly {
		return k.store.Reader(use.ProfileID), nil
	}
	claim, err := k.store.Acquire(use.ProfileID)
	if err != nil {
		return nil, err
	}
	return claim, nil
}

type cookie struct {
	Name    string  `json:"name"`
	Value   string  `json:"value"`
	URL     string  `json:"url,omitempty"`
	Expires float64 `json:"expires,omitempty"`
}

func setCookie(t *testing.T, b *browser.Browser, value string) {
	t.Helper()
	expires := float64(time.Now().Add(time.Hour).Unix())
	err := b.CDP().Call(t.Context(), "", "Storage.setCookies", map[string]any{
		"cookies": []cookie{{Name: "seen", Value: value, URL: "http://shop.example/", Expires: expires}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func cookieOf(t *testing.T, b *browser.Browser) string {
	t.Helper()
	var found struct{ Cookies []cookie }
	if err := b.CDP().Call(t.Context(), "", "Storage.getCookies", nil, &found); err != nil {
		t.Fatal(err)
	}
	for _, c := range found.Cookies {
		if c.Name == "seen" {
			return c.Value
		}
	}
	return ""
}

func TestPersist_KeepsDataOnlyWhenEnabled(t *testing.T) {
	for _, tc := range []struct {
		name    string
		persist bool
		want    string
	}{{"kept", true, "yes"}, {"not kept", false, ""}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newFixture(t)
			r.cloud.profile.Persist = tc.persist
			request := byProfile()
			first := r.launch(t, request)
			setCookie(t, r.browser(t, first), "yes")
			if _, err := r.Kill(t.Context(), first.ID); err != nil {
				t.Fatal(err)
			}
			second := r.launch(t, request) // at once: the data is released before the end is reported
			if got := cookieOf(t, r.browser(t, second)); got != tc.want {
				t.Errorf("the cookie is %q, want %q", got, tc.want)
			}
			if got := cookieOf(t, r.browser(t, r.launch(t, byProfile()))); got != "" {
				t.Errorf("another profile has the cookie %q", got)
			}
		})
	}
}

func TestPersist_AllowsOneLaunchAtATime(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.Persist = true
	request := byProfile()
	first := r.launch(t, request)
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Conflict)
	if end := r.awaitEnd(t, time.Second); end.SessionID != r.cloud.requests[1].SessionID {
		t.Errorf("ended %+v, want the second launch's slot", end)
	}
	if err := r.browser(t, first).CDP().Call(t.Context(), "", "Browser.close", nil, nil); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(t, 10*time.Second)
	r.launch(t, request)
}

func TestLaunch_ProfileWithoutPersistRunsConcurrently(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	r.launch(t, request)
	r.launch(t, request)
	if live, _ := r.Sessions.Live(); len(live) != 2 {
		t.Errorf("%d sessions run", len(live))
	}
}

func TestPersist_CrashKeepsLastSavedData(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.Persist = true
	request := byProfile()
	first := r.launch(t, request)
	setCookie(t, r.browser(t, first), "first")
	if _, err := r.Kill(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(t, 10*time.Second)
	crashing := r.browser(t, r.launch(t, request))
	setCookie(t, crashing, "second")
	if err := syscall.Kill(crashing.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(t, 10*time.Second)
	if got := cookieOf(t, r.browser(t, r.launch(t, request))); got != "first" {
		t.Errorf("after a crash the cookie is %q", got)
	}
}

func TestReadOnly_RunsBesideWriterAndSavesNothing(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.Persist = true
	request := byProfile()
	first := r.launch(t, request)
	setCookie(t, r.browser(t, first), "saved")
	if _, err := r.Kill(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	writer := r.launch(t, request)
	reading := request
	reading.ReadOnly = true
	for range 2 {
		reader := r.launch(t, reading)
		if got := cookieOf(t, r.browser(t, reader)); got != "saved" {
			t.Errorf("the reader has the cookie %q", got)
		}
		setCookie(t, r.browser(t, reader), "of a reader")
		if ended, err := r.Kill(t.Context(), reader.ID); err != nil || ended.SaveResult != nil {
			t.Errorf("the reader ended with %+v, %v", ended.SaveResult, err)
		}
	}
	if _, err := r.Kill(t.Context(), writer.ID); err != nil {
		t.Fatal(err)
	}
	if got := cookieOf(t, r.browser(t, r.launch(t, request))); got != "saved" {
		t.Errorf("after the readers the cookie is %q", got)
	}
}

// failingDataStore fails to save data.
type failingDataStore struct {
	dataStore
	err error
}

func (f failingDataStore) Acquire(ctx context.Context, use launch.DataUse) (launch.SavedData, error) {
	claimed, err := f.dataStore.Acquire(ctx, use)
	return failingData{claimed, f.err}, err
}

type failingData struct {
	launch.SavedData
	err error
}

func (f failingData) Save(context.Context, *os.Root) error { return f.err }

func TestKill_ReportsWhetherDataWasSaved(t *testing.T) {
	type saved = session.SaveResult
	for name, tc := range map[string]struct {
		persist  bool
		maxBytes int64
		err      error
		want     *saved
	}{
		"kept":       {persist: true, want: &saved{Saved: true}},
		"not kept":   {},
		"too large":  {persist: true, maxBytes: 1, want: &saved{Reason: session.DataTooLarge}},
		"full disk":  {persist: true, err: &os.PathError{Op: "write", Path: "saving.tmp", Err: syscall.ENOSPC}, want: &saved{Reason: session.DataDiskFull}},
		"full quota": {persist: true, err: &os.PathError{Op: "write", Path: "saving.tmp", Err: syscall.EDQUOT}, want: &saved{Reason: session.DataDiskFull}},
		"too slow":   {persist: true, err: fmt.Errorf("save: %w", context.DeadlineExceeded), want: &saved{Reason: session.DataTimeout}},
		"broken":     {persist: true, err: syscall.EIO, want: &saved{Reason: session.DataError}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, func(o *launch.Options) {
				data := dataStore{openStore(t, t.TempDir(), cmp.Or(tc.maxBytes, 1<<30), o.Logger)}
				if o.Data = data; tc.err != nil {
					o.Data = failingDataStore{data, tc.err}
				}
			})
			r.cloud.profile.Persist = tc.persist
			s := r.launch(t, byProfile())
			if running, _ := r.Sessions.Get(s.ID); running.SaveResult != nil {
				t.Errorf("while the browser runs: %+v", running.SaveResult)
			}
			ended, err := r.Kill(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tc.want, ended.SaveResult); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCrash_SavesNoData(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.Persist = true
	s := r.launch(t, byProfile())
	if err := syscall.Kill(r.browser(t, s).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(t, 10*time.Second)
	ended, _ := r.Sessions.Get(s.ID)
	if diff := gocmp.Diff(&session.SaveResult{Reason: session.DataUncleanEnd}, ended.SaveResult); diff != "" {
		t.Error(diff)
	}
}
