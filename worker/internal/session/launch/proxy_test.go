package launch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestProxy_ReportsFailureOfCheck(t *testing.T) {
	own, profiles := byProfile(), byProfile()
	own.Override.Proxy = &settings.Proxy{Server: "http://own:1"}
	withKey := own
	withKey.OrganizationKey = session.NewOrganizationKey("a caller's")
	spec := launch.Request{Spec: &launch.Spec{}, Headless: true}
	for _, tc := range []struct {
		name    string
		request launch.Request
		err     error
		field   string
		message string
		calls   int // authorize requests, each followed by an end
	}{
		{"credentials", own, launch.ErrProxyCredentials, "proxyOverride.server", "refuses the credentials", 0},
		{"reach", own, launch.ErrProxyUnreachable, "proxyOverride.server", "cannot be reached", 0},
		{"something else", own, errors.New("no"), "proxyOverride.server", "cannot be used", 0},
		{"of a caller with a key", withKey, launch.ErrProxyCredentials, "proxyOverride.server", "refuses the credentials", 1},
		{"the profile's", profiles, launch.ErrProxyCredentials, "profile.proxy.server", "refuses the credentials", 1},
		{"the spec's", spec, launch.ErrProxyUnreachable, "spec.proxy.server", "cannot be reached", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newFixture(t)
			r.checkProxy = func(context.Context) error { return fmt.Errorf("preflight: %w", tc.err) }
			r.cloud.profile.Settings.Proxy = &settings.Proxy{Server: "http://profile:1"}
			_, err := r.Launch(t.Context(), tc.request)
			want := []fault.Detail{{Field: tc.field, Code: fault.Custom, Message: tc.message}}
			if diff := cmp.Diff(want, assertKind(t, err, fault.Validation).Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if len(r.cloud.requests) != tc.calls || len(r.cloud.ends()) != tc.calls || r.opened != r.closed {
				t.Errorf("got %d authorize requests and %d ends; %d egresses opened, %d closed", len(r.cloud.requests), len(r.cloud.ends()), r.opened, r.closed)
			}
			if tc.calls > 0 && !r.cloud.ends()[0].OrganizationKey.Equal(tc.request.OrganizationKey) {
				t.Error("the slot was released with another key")
			}
		})
	}
}

func TestProxy_UnusableUpstreamReleasesResources(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		message string
	}{
		"denied":         {launch.ErrProxyDenied, "is denied on this worker"},
		"something else": {errors.New("no"), "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.upstreamErr = fmt.Errorf("use: %w", tc.err)
			r.cloud.profile.Settings.Proxy = &settings.Proxy{Server: "http://profile:1"}
			_, err := r.Launch(t.Context(), byProfile())
			want := []fault.Detail{{Field: "profile.proxy.server", Code: fault.Custom, Message: tc.message}}
			if diff := cmp.Diff(want, assertKind(t, err, fault.Validation).Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if r.opened != 1 || r.closed != 1 || len(r.cloud.ends()) != 1 {
				t.Errorf("got %d egresses opened, %d closed; %d slots released", r.opened, r.closed, len(r.cloud.ends()))
			}
		})
	}
}

func TestProxy_IsCheckedOnce(t *testing.T) {
	r := newFixture(t)
	calls := 0
	r.checkProxy = func(context.Context) error { calls++; return nil }
	request := byProfile()
	request.Override.Proxy = &settings.Proxy{Server: "http://own:1"}
	r.launch(t, request)
	if calls != 1 {
		t.Errorf("got %d checks", calls)
	}
}

func TestTraffic_IsKeptAfterEnd(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	request.Override.Proxy = &settings.Proxy{Server: "http://own:1"}
	s, direct := r.launch(t, request), r.launch(t, byProfile())
	for _, when := range []string{"while the browser runs", "after its end"} {
		if received, sent, ok := r.Traffic(s.ID); !ok || received != 11 || sent != 7 {
			t.Errorf("%s: %d, %d, %v", when, received, sent, ok)
		}
		if _, _, ok := r.Traffic(direct.ID); ok {
			t.Errorf("%s: got traffic without a proxy", when)
		}
		for _, id := range []session.Session{s, direct} {
			if _, err := r.Kill(t.Context(), id.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestProxy_CheckIsCanceledWithClient(t *testing.T) {
	r := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	r.checkProxy = func(ctx context.Context) error { leave(); <-ctx.Done(); return ctx.Err() }
	request := byProfile()
	request.Override.Proxy = &settings.Proxy{Server: "http://own:1"}
	began := time.Now()
	_, err := r.Launch(ctx, request)
	assertKind(t, err, fault.Unavailable)
	if time.Since(began) > 5*time.Second || len(r.cloud.requests) > 0 {
		t.Errorf("took %v, the cloud was got %d checks", time.Since(began), len(r.cloud.requests))
	}
}
