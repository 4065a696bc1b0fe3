package launch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Unacknowledged returns the ends of a key that no authorize request has carried.
func (c *fakeCloud) Unacknowledged(key session.OrganizationKey) (found []launch.Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ended {
		if !c.carried[end.SessionID] && end.OrganizationKey.Equal(key) {
			found = append(found, end)
		}
	}
	return found
}

func (c *fakeCloud) Carried(ends []launch.Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		if c.carried == nil {
			c.carried = map[uuid.UUID]bool{}
		}
		c.carried[end.SessionID] = true
	}
}

func (c *fakeCloud) Profile(_ context.Context, _ session.OrganizationKey, id uuid.UUID) (launch.Profile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configs = append(c.configs, id)
	configured := c.profile
	configured.ID = id
	return configured, c.noConfig
}

func (*fakeCloud) Deliver(context.Context, session.OrganizationKey) bool { return false }

// withCountingAdmission makes the fixture's cloud count slots up to a limit. It
// learns of ends only from authorize requests.
func (r *fixture) withCountingAdmission() {
	const limit = 1
	held := map[uuid.UUID]bool{}
	r.cloud.decide = func(request launch.Authorization) (full bool, err error) {
		for _, end := range request.Ends {
			delete(held, end.SessionID)
		}
		if len(held) >= limit {
			return true, fault.New(fault.PaymentRequired, "All slots of the organization are in use.")
		}
		held[request.SessionID] = true
		return len(held) == limit, nil
	}
}

func TestLaunch_CarriesEndsOfItsKey(t *testing.T) {
	r := newFixture(t)
	r.withCountingAdmission()
	a, b := byProfile(), byProfile()
	a.OrganizationKey, b.OrganizationKey = session.NewOrganizationKey("a"), session.NewOrganizationKey("b")
	s := r.launch(t, a)
	if _, err := r.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Launch(t.Context(), b); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("with another key: %v", err)
	}
	r.launch(t, a)
	requests := r.cloud.requests
	last := requests[len(requests)-1]
	if len(last.Ends) != 1 || last.Ends[0].SessionID != s.ID || last.Ends[0].Reason != session.ByRequest {
		t.Errorf("carried %+v", last.Ends)
	}
}

func TestLaunch_CarriesNoEndsWithoutEndedSessions(t *testing.T) {
	r := newFixture(t)
	r.launch(t, byProfile())
	r.launch(t, byProfile())
	for _, request := range r.cloud.requests {
		if request.Ends != nil {
			t.Errorf("carried %+v", request.Ends)
		}
	}
}

func TestLaunch_CarriesEndAgainAfterFailedAuthorize(t *testing.T) {
	r := newFixture(t)
	r.withCountingAdmission()
	s := r.launch(t, byProfile())
	if _, err := r.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	decide := r.cloud.decide
	r.cloud.decide = func(launch.Authorization) (bool, error) { return false, fault.New(fault.NotFound, "no such profile") }
	if _, err := r.Launch(t.Context(), byProfile()); !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	r.cloud.decide = decide
	r.launch(t, byProfile())
}

// A client that has left launches while its previous browser is still ending.
func TestLaunch_WaitsForEndingSession(t *testing.T) {
	for name, knownFull := range map[string]bool{"known to be full": true, "found to be full": false} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.withCountingAdmission()
			decide := r.cloud.decide
			r.cloud.decide = func(request launch.Authorization) (bool, error) {
				full, err := decide(request)
				return full && knownFull, err
			}
			s := r.launch(t, byProfile())
			r.BindClient(s.LaunchID, func() bool { return true })
			time.AfterFunc(100*time.Millisecond, func() { _, _ = r.KillLaunch(context.Background(), s.LaunchID, session.ClientClose) })
			r.launch(t, byProfile())
			want := 2 // the first launch, and the second
			if !knownFull {
				want++ // the second was refused once
			}
			if len(r.cloud.requests) != want {
				t.Errorf("got %d authorize requests, want %d", len(r.cloud.requests), want)
			}
		})
	}
}

func TestLaunch_RefusedAtOnceWithoutEndingSession(t *testing.T) {
	r := newFixture(t)
	r.withCountingAdmission()
	r.launch(t, byProfile())
	began := time.Now()
	if _, err := r.Launch(t.Context(), byProfile()); !fault.Is(err, fault.PaymentRequired) {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second || len(r.cloud.requests) != 2 {
		t.Errorf("refused after %v and %d authorize requests", took, len(r.cloud.requests))
	}
}

// The wait for a session that was expected to end, but continues, is bounded.
func TestLaunch_RefusedWhenSessionDoesNotEnd(t *testing.T) {
	r := newFixture(t)
	r.withCountingAdmission()
	s := r.launch(t, byProfile())
	r.BindClient(s.LaunchID, func() bool { return true })
	if _, err := r.Launch(t.Context(), byProfile()); !fault.Is(err, fault.PaymentRequired) {
		t.Error(err)
	}
}

func TestLaunch_ReadsConfigurationMissingFromGrant(t *testing.T) {
	r := newFixture(t)
	r.cloud.withoutConfig = true
	request := byProfile()
	s := r.launch(t, request)
	if s.ProfileID != *request.ProfileID || s.ProfileName != "Checkout" || len(r.cloud.configs) != 1 || r.cloud.configs[0] != *request.ProfileID {
		t.Errorf("launched %+v, requested configurations %v", s, r.cloud.configs)
	}
}

func TestLaunch_ReleasesSlotWithoutConfiguration(t *testing.T) {
	for _, key := range []session.OrganizationKey{{}, session.NewOrganizationKey("a")} {
		r := newFixture(t)
		r.cloud.withoutConfig, r.cloud.noConfig = true, fault.New(fault.NotFound, "no such profile")
		request := byProfile()
		request.OrganizationKey = key
		if _, err := r.Launch(t.Context(), request); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
		ends := r.cloud.ends()
		if len(ends) != 1 || ends[0].SessionID != r.cloud.requests[0].SessionID || ends[0].ProfileID != *request.ProfileID || !ends[0].OrganizationKey.Equal(key) {
			t.Errorf("reported %+v", ends)
		}
		r.assertNoResourcesLeak(t)
	}
}
