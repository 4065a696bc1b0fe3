package launch_test

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/profiledata"
)

// kept is the data of profiles as the worker keeps it.
type kept struct{ store *profiledata.Store }

func keptIn(t *testing.T, dir string, log *slog.Logger) kept {
	t.Helper()
	store, err := profiledata.Open(profiledata.Options{Dir: dir, Versions: 3, MaxBytes: 1 << 30, Clock: clock.System{}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return kept{store}
}

func (k kept) Claim(ctx context.Context, profileID uuid.UUID) (launch.Kept, error) {
	claim, err := k.store.Claim(ctx, profileID)
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

func TestAProfileKeepsItsDataOnlyWhenItIsTo(t *testing.T) {
	for _, tc := range []struct {
		name    string
		persist bool
		want    string
	}{{"kept", true, "yes"}, {"not kept", false, ""}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.cloud.profile.Persist = tc.persist
			request := byProfile()
			first := r.launch(t, request)
			setCookie(t, r.browser(t, first), "yes")
			if _, err := r.Kill(t.Context(), first.ID); err != nil {
				t.Fatal(err)
			}
			second := r.launch(t, request) // at once: whoever hears of an end finds the data free
			if got := cookieOf(t, r.browser(t, second)); got != tc.want {
				t.Errorf("the cookie is %q, want %q", got, tc.want)
			}
			if got := cookieOf(t, r.browser(t, r.launch(t, byProfile()))); got != "" {
				t.Errorf("another profile has the cookie %q", got)
			}
		})
	}
}

func TestKeptDataIsForOneLaunchAtATime(t *testing.T) {
	r := newRig(t)
	r.cloud.profile.Persist = true
	request := byProfile()
	first := r.launch(t, request)
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Conflict)
	if end := r.awaitEnd(t, time.Second); end.SessionID != r.cloud.asked[1].SessionID {
		t.Errorf("ended %+v, want the second launch's slot", end)
	}
	if err := r.browser(t, first).CDP().Call(t.Context(), "", "Browser.close", nil, nil); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(t, 10*time.Second)
	r.launch(t, request)
}

func TestADifferentLaunchOfAProfileThatKeepsNothingRunsBeside(t *testing.T) {
	r := newRig(t)
	request := byProfile()
	r.launch(t, request)
	r.launch(t, request)
	if live, _ := r.Sessions.Live(); len(live) != 2 {
		t.Errorf("%d run", len(live))
	}
}

func TestACrashKeepsTheDataOfTheLastCleanEnd(t *testing.T) {
	r := newRig(t)
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
