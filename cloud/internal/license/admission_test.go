package license_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/fault"
)

// keyRecorder implements license.Keys.
type keyRecorder struct {
	license.Keys
	mu    sync.Mutex
	times map[uuid.UUID]int
}

// Reject implements license.Keys.
func (k *keyRecorder) Reject(keys, valid []uuid.UUID) map[uuid.UUID]error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range valid {
		k.times[id]++
	}
	return k.Keys.Reject(keys, valid)
}

// key inserts a key of the organization that expires in an hour.
func (h *fixture) key() uuid.UUID {
	h.t.Helper()
	key := id()
	h.exec(`INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at, expires_at)
		VALUES ($1, $2, 'Test', sha256(uuid_send($1)), 'svc_', 'last', now(), now() + interval '1 hour')`, key, h.org)
	return key
}

// profileStub implements license.Profiles with fixed launch configurations.
type profileStub struct {
	configs map[uuid.UUID]string
	calls   int
}

// Prepare implements license.Profiles.
func (p *profileStub) Prepare(_ context.Context, _ uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]license.Prepared, error) {
	p.calls++
	all := map[uuid.UUID]license.Prepared{}
	for _, id := range ids {
		if config, ok := p.configs[id]; ok {
			all[id] = license.Prepared{Config: config}
		} else {
			all[id] = license.Prepared{Err: fault.Missing("profile")}
		}
	}
	return all, nil
}

// serviceWithChecks returns a Service that checks keys and profiles. used, if set,
// records the valid keys.
func (h *fixture) serviceWithChecks(used *keyRecorder, profiles license.Profiles) *license.Service {
	h.t.Helper()
	verifier, err := apikey.NewVerifier(h.t.Context(), h.db, h.clock, slog.New(slog.DiscardHandler))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { verifier.Close() })
	var keys license.Keys = verifier
	if used != nil {
		used.Keys = verifier
		keys = used
	}
	s, err := license.New(h.t.Context(), h.db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{
		Clock: h.clock, ReapGrace: time.Millisecond, Keys: keys, Profiles: profiles,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return s
}

// TestAuthorize_RefusesInvalidKeys mixes launches with valid, invalid and already
// validated keys, so that they share batches.
func TestAuthorize_RefusesInvalidKeys(t *testing.T) {
	const limit, each = 30, 25
	h := newFixture(t, limit)
	good, bad, checked := h.key(), h.key(), id()
	h.exec(`UPDATE api_keys SET revoked_at = now() WHERE id = $1`, bad)
	used := &keyRecorder{times: map[uuid.UUID]int{}}
	s := h.serviceWithChecks(used, nil)
	var mu sync.Mutex
	granted := map[uuid.UUID]int{}
	var group sync.WaitGroup
	for range each {
		for _, key := range []uuid.UUID{good, bad, checked} {
			group.Go(func() {
				req := h.request(id())
				req.KeyID, req.KeyPending = key, key != checked
				grant, err := s.Authorize(t.Context(), req)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case key == bad && !fault.Is(err, fault.Unauthenticated):
					t.Errorf("invalid key: got %+v, %v", grant, err)
				case key != bad && err != nil:
					t.Error(err)
				case grant.Allowed:
					granted[key]++
				}
			})
		}
	}
	group.Wait()
	if granted[good]+granted[checked] != limit || granted[bad] != 0 || h.inUse() != limit {
		t.Errorf("granted %v, counted %d, want %d", granted, h.inUse(), limit)
	}
	if n := query[int](h, `SELECT count(*) FROM license_slots WHERE key_id = $1`, bad); n != 0 {
		t.Errorf("the invalid key has %d slots", n)
	}
	if used.times[good] == 0 || len(used.times) != 1 {
		t.Errorf("recorded the use of %v, want only %s", used.times, good)
	}
}

func TestAuthorize_InvalidKeyAtLimitIsUnauthenticated(t *testing.T) {
	h := newFixture(t, 0)
	for why, spoil := range map[string]string{
		"revoked": `UPDATE api_keys SET revoked_at = now() WHERE id = $1`,
		"expired": `UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`,
		"gone":    `DELETE FROM api_keys WHERE id = $1`,
	} {
		s := h.serviceWithChecks(nil, nil)
		req := h.request(id())
		req.KeyID, req.KeyPending = h.key(), true
		if grant, err := s.Authorize(t.Context(), req); err != nil || grant.Allowed {
			t.Fatalf("valid key: got %+v, %v", grant, err)
		}
		h.exec(spoil, req.KeyID)
		for _, spec := range []bool{false, true} {
			if spec {
				req.NewProfile = newProfileFunc(h, nil)
			}
			if grant, err := s.Authorize(t.Context(), req); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s key: got %+v, %v", why, grant, err)
			}
		}
	}
}

// The removal must not be distinguishable from any other invalid key.
func TestAuthorize_InvalidKeyOfRemovedOrganizationIsUnauthenticated(t *testing.T) {
	h := newFixture(t, 0)
	s := h.serviceWithChecks(nil, nil)
	req, checked := h.request(id()), h.request(id())
	req.KeyID, req.KeyPending = h.key(), true
	if grant, err := s.Authorize(t.Context(), req); err != nil || grant.Allowed {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.exec(`DELETE FROM organizations WHERE id = $1`, h.org)
	if grant, err := s.Authorize(t.Context(), req); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("got %+v, %v", grant, err)
	}
	if grant, err := s.Authorize(t.Context(), checked); !fault.Is(err, fault.NotFound) {
		t.Errorf("validated key: got %+v, %v", grant, err)
	}
	h.newOrganization(0)
}

func TestAuthorize_FailsWhenKeyCheckFails(t *testing.T) {
	h := newFixture(t, 1)
	s := h.serviceWithChecks(nil, nil)
	req := h.request(id())
	req.KeyID, req.KeyPending = h.key(), true
	h.exec(`ALTER TABLE api_keys RENAME TO lost`)
	if grant, err := s.Authorize(t.Context(), req); pq.As(err, pqerror.UndefinedTable) == nil {
		t.Errorf("got %+v, %v", grant, err)
	}
	req.KeyPending = false
	if grant, err := s.Authorize(t.Context(), req); err != nil || !grant.Allowed {
		t.Errorf("validated key: got %+v, %v", grant, err)
	}
}

// TestAuthorize_ReturnsProfileConfig mixes launches of existing profiles, of missing
// profiles and without a profile, so that they share batches.
func TestAuthorize_ReturnsProfileConfig(t *testing.T) {
	const each = 25
	h := newFixture(t, -1)
	first, second, missing := id(), id(), id()
	configs := map[uuid.UUID]string{first: "one", second: "two"}
	s := h.serviceWithChecks(nil, &profileStub{configs: configs})
	var group sync.WaitGroup
	for range each {
		for _, profile := range []*uuid.UUID{&first, &second, &missing, {}, nil} {
			group.Go(func() {
				req := h.request(id())
				req.ProfileID = profile
				grant, err := s.Authorize(t.Context(), req)
				switch {
				case profile == nil:
					if err != nil || !grant.Allowed || grant.Config != nil {
						t.Errorf("without a profile got %+v, %v", grant, err)
					}
				case configs[*profile] == "":
					if !fault.Is(err, fault.NotFound) {
						t.Errorf("without its profile got %+v, %v", grant, err)
					}
				case err != nil || !grant.Allowed || grant.Config != configs[*profile]:
					t.Errorf("for %s got %+v, %v", configs[*profile], grant, err)
				}
			})
		}
	}
	group.Wait()
	if h.inUse() != 3*each {
		t.Errorf("%d counted, want %d", h.inUse(), 3*each)
	}
}

func TestAuthorize_MissingProfileTakesNoSlot(t *testing.T) {
	h := newFixture(t, 1)
	profiles := &profileStub{configs: map[uuid.UUID]string{h.profile: "config"}}
	s := h.serviceWithChecks(nil, profiles)
	req := h.request(id())
	req.ProfileID = new(id())
	if _, err := s.Authorize(t.Context(), req); !fault.Is(err, fault.NotFound) || h.inUse() != 0 {
		t.Errorf("got %v, %d counted", err, h.inUse())
	}
	for _, allowed := range []bool{true, false} {
		if grant, err := s.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed != allowed {
			t.Fatalf("got %+v, %v, want %v", grant, err, allowed)
		}
	}
	calls := profiles.calls
	if grant, err := s.Authorize(t.Context(), req); err != nil || grant.Allowed || profiles.calls != calls {
		t.Errorf("at the limit: got %+v, %v, %d calls of Prepare", grant, err, profiles.calls-calls)
	}
}
