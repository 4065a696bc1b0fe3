package license_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// The answer of a committed call is lost, and the caller or the worker repeats the
// call.
func TestRace12_CrashBetweenCommitAndReply(t *testing.T) {
	through := func(t *testing.T) (*fixture, *faultyProxy, *license.Service) {
		h, w := newFixture(t, 10), &faultyProxy{}
		return h, w, h.replica(h.openThroughProxy(w))
	}
	t.Run("of a grant", func(t *testing.T) {
		h, w, s := through(t)
		w.cutAt("SELECT 1", 0)
		if v := <-h.authorizeAsync(t.Context(), s, nil); v.err != nil || !v.grant.Allowed || h.inUse() != 1 {
			t.Errorf("%+v, %v; %d counted", v.grant, v.err, h.inUse())
		}
		w.wasCut(t)
	})
	t.Run("of a batch of grants", func(t *testing.T) {
		h, w, s := through(t)
		release := h.lockCounter()
		answers := []chan authorizeResult{h.authorizeAsync(t.Context(), s, nil)}
		h.awaitBlocked(1)
		for i := range 4 {
			answers = append(answers, h.authorizeAsync(t.Context(), s, nil))
			eventually(t, func() bool { return s.WaitingForGrants(h.org) == i+1 })
		}
		w.cutAt("SELECT ", 1) // after that to the one before the batch
		release()
		slots := map[uuid.UUID]bool{}
		for _, answer := range answers {
			v := <-answer
			if v.err != nil || !v.grant.Allowed {
				t.Errorf("%+v, %v", v.grant, v.err)
			}
			slots[v.grant.SlotID] = true
		}
		w.wasCut(t)
		if len(slots) != 5 || h.inUse() != 5 {
			t.Errorf("%d slots, %d counted", len(slots), h.inUse())
		}
	})
	t.Run("of a grant, and the replica has ended", func(t *testing.T) {
		h, w, s := through(t)
		w.down.Store(true)
		w.cutAt("SELECT 1", 0)
		v := <-h.authorizeAsync(t.Context(), s, nil)
		if v.err == nil || v.grant.Allowed || h.inUse() != 1 {
			t.Fatalf("%+v, %v; %d counted", v.grant, v.err, h.inUse())
		}
		w.wasCut(t)
		for _, other := range h.replicas() { // the worker asks elsewhere
			grant, err := other.Authorize(t.Context(), h.request(v.session))
			if err != nil || !grant.Allowed || grant.Current != 1 || grant.SlotID != query[uuid.UUID](h, `SELECT id FROM license_slots`) {
				t.Errorf("repeated request: %+v, %v", grant, err)
			}
		}
		h.age(v.session, license.ReservationTTL) // or the worker has also ended
		if h.mustReclaim(); h.inUse() != 0 {
			t.Errorf("%d counted, want none", h.inUse())
		}
	})
	t.Run("of a start", func(t *testing.T) {
		h, w, s := through(t)
		report := h.startReport(h.authorize())
		w.cutAt("COMMIT", 0)
		if _, err := s.Start(t.Context(), report); err == nil {
			t.Error("the answer arrived")
		}
		w.wasCut(t)
		got, err := s.Start(t.Context(), report)
		if err != nil || got.EndedAt != nil || h.state(report.SessionID) != "running" || h.inUse() != 1 || h.feedEntry(report.SessionID).Starts != 1 {
			t.Errorf("%+v, %v; %d counted, heard %+v", got, err, h.inUse(), h.feedEntry(report.SessionID))
		}
	})
	t.Run("of an end", func(t *testing.T) {
		h, w, s := through(t)
		session, other := h.start(), h.start()
		w.cutAt("COMMIT", 0)
		report := h.endReport(session)
		report.EndReason = license.Idle
		got, err := s.End(t.Context(), report)
		if err != nil || *got.EndReason != license.Idle || h.inUse() != 1 || h.state(other) != "running" || h.feedEntry(session).Ends != 1 {
			t.Errorf("%+v, %v; %d counted, %d ends heard", got, err, h.inUse(), h.feedEntry(session).Ends)
		}
		w.wasCut(t)
	})
	t.Run("of a heartbeat", func(t *testing.T) {
		h, w, s := through(t)
		kept, omitted := h.start(), h.start()
		beat := h.heartbeat(kept)
		w.cutAt("COMMIT", 0)
		if _, err := s.Heartbeat(t.Context(), beat); err == nil {
			t.Error("the answer arrived")
		}
		w.wasCut(t)
		for range 2 {
			result, err := s.Heartbeat(t.Context(), beat)
			if err != nil || !result.Applied || len(result.Released) != 0 {
				t.Errorf("repeated request: %+v, %v", result, err)
			}
		}
		if h.state(omitted) != "released omitted" || h.state(kept) != "running" || h.inUse() != 1 || h.feedEntry(omitted).Ends != 1 {
			t.Errorf("%s, %s, %d counted, heard %+v", h.state(omitted), h.state(kept), h.inUse(), h.feedEntry(omitted))
		}
	})
}

// noAudit is an audit log that stores nothing.
type noAudit struct{}

func (noAudit) Record(context.Context, *sqlx.Tx, uuid.UUID, string, string, map[string]any) error {
	return nil
}

// A request is accepted or refused by its key once. Accepted requests get their slot;
// requests after the revocation are refused.
func TestRace13_KeyRevokedInFlight(t *testing.T) {
	h := newFixture(t, -1)
	user := id()
	h.exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'a@example.com', 'A', '', now())`, user)
	keys := &apikey.Service{DB: h.db, Clock: clock.System{}, Audit: noAudit{}}
	checks, err := apikey.NewVerifier(t.Context(), h.db, clock.System{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer checks.Close()
	newKey := func(name string) (uuid.UUID, string) {
		key, secret, err := keys.Create(t.Context(), h.org, user, apikey.NewKey{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return key.ID, secret
	}
	launch := func(s *license.Service, secret string) error {
		who, err := checks.Verify(t.Context(), secret)
		if err != nil {
			return err
		}
		req := h.request(id())
		req.OrgID, req.KeyID = who.OrgID, who.KeyID
		grant, err := s.Authorize(t.Context(), req)
		if err == nil && !grant.Allowed {
			err = fmt.Errorf("refused: %+v", grant)
		}
		return err
	}
	replicas := h.replicas()
	key, secret := newKey("revoked")
	other, otherSecret := newKey("other")

	unlock := h.lockCounter()
	admitted := async(func() error { return launch(replicas[0], secret) })
	h.awaitBlocked(1)
	var revoked atomic.Bool
	var granted atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			for {
				late := revoked.Load()
				err := launch(replicas[i%3], secret)
				if err == nil && !late {
					granted.Add(1)
					continue
				}
				wantFault(t, err, fault.Unauthenticated) // and never another refusal
				return
			}
		})
		group.Go(func() {
			if err := launch(replicas[i%3], otherSecret); err != nil {
				t.Errorf("the other key: %v", err)
			}
		})
	}
	unlock()
	eventually(t, func() bool { return granted.Load() > 50 })
	if err := keys.Revoke(t.Context(), h.org, key); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	group.Wait()
	if err := <-admitted; err != nil {
		t.Errorf("accepted requests: %v", err)
	}
	slots := func(key uuid.UUID) int {
		return query[int](h, `SELECT count(*) FROM license_slots WHERE key_id = $1 AND released_at IS NULL`, key)
	}
	if want := 1 + int(granted.Load()); slots(key) != want || slots(other) != 12 || h.inUse() != want+12 {
		t.Errorf("%d slots of the key, want %d; %d of the other; %d counted", slots(key), want, slots(other), h.inUse())
	}
	h.exec(`UPDATE license_slots SET lease_until = now() WHERE key_id = $1`, key) // no worker can report them
	if h.mustReclaim(); slots(key) != 0 || h.inUse() != 12 {
		t.Errorf("%d slots are left of the key, %d counted", slots(key), h.inUse())
	}
}
