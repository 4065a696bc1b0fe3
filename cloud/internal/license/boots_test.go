package license_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
)

func TestHeartbeat_OfOldBootIsIgnored(t *testing.T) {
	v4 := func() uuid.UUID { return uuid.New() }
	for name, test := range map[string]struct {
		boot    func() uuid.UUID
		arrange func(h *fixture, old license.HeartbeatReport)
		first   func(h *fixture) uuid.UUID // what makes the new boot known
	}{
		"known before": {
			boot:    v4,
			arrange: func(h *fixture, old license.HeartbeatReport) { h.mustHeartbeat(old) },
			first:   func(h *fixture) uuid.UUID { s := h.start(); h.mustHeartbeat(h.heartbeat(s)); return s },
		},
		"known before, replaced by a start": {
			boot:    v4,
			arrange: func(h *fixture, old license.HeartbeatReport) { h.mustHeartbeat(old) },
			first:   func(h *fixture) uuid.UUID { return h.start() },
		},
		"known from its starts": {
			boot:    v4,
			arrange: func(h *fixture, _ license.HeartbeatReport) { h.start() },
			first:   func(h *fixture) uuid.UUID { return h.start() },
		},
		"unknown, but older": {
			boot:    id,
			arrange: func(*fixture, license.HeartbeatReport) {},
			first:   func(h *fixture) uuid.UUID { s := h.start(); h.mustHeartbeat(h.heartbeat(s)); return s },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			h.boot = test.boot()
			old := h.heartbeat()
			test.arrange(h, old)
			h.boot = test.boot()
			h.seq.Store(0)
			session := test.first(h)
			old.Seq += 100
			assertResult(t, h.mustHeartbeat(old), license.HeartbeatResult{})
			if h.state(session) != "running" {
				t.Errorf("the new boot's session is %s", h.state(session))
			}
			leftovers := h.reservationsOfOldBoots()
			assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{
				Applied: true, Accepted: ids(session), Released: leftovers,
			})
		})
	}
}

// reservationsOfOldBoots returns the live sessions of other boots, which the fixture's
// next heartbeat releases.
func (h *fixture) reservationsOfOldBoots() []uuid.UUID {
	h.t.Helper()
	var sessions []uuid.UUID
	err := h.db.Select(&sessions, `SELECT session_id FROM license_slots WHERE boot_id <> $1 AND released_at IS NULL`, h.boot)
	if err != nil {
		h.t.Fatal(err)
	}
	return sessions
}

func TestHeartbeat_OfOldBootKeepsReservationOfNewBoot(t *testing.T) {
	h := newFixture(t, 5)
	old := h.heartbeat()
	h.mustHeartbeat(old)
	h.boot = id()
	session := h.authorize()
	old.Seq++
	assertResult(t, h.mustHeartbeat(old), license.HeartbeatResult{Applied: true})
	if h.state(session) != "reserved" {
		t.Errorf("the new boot's reservation is %s", h.state(session))
	}
}

// If a host's clock was set back, its new boot looks older. It replaces the other boot
// once that was silent for the whole lease.
func TestHeartbeat_OlderLookingBootReplacesSilentBoot(t *testing.T) {
	h := newFixture(t, 5)
	older := h.boot
	h.boot = id()
	h.mustHeartbeat(h.heartbeat())
	h.boot = older
	if h.mustHeartbeat(h.heartbeat()).Applied {
		t.Error("an older boot was accepted at once")
	}
	h.exec(`UPDATE license_machines SET heartbeat_at = heartbeat_at - interval '5 minutes'`)
	if !h.mustHeartbeat(h.heartbeat()).Applied {
		t.Error("the older boot is never accepted")
	}
}

func TestHeartbeat_TwoWorkersOfOneMachineDoNotAlternate(t *testing.T) {
	h := newFixture(t, 10)
	first, second := id(), id()
	as := func(boot uuid.UUID, sessions ...uuid.UUID) license.HeartbeatReport {
		h.boot = boot
		return h.heartbeat(sessions...)
	}
	h.boot = first
	a := h.start()
	h.mustHeartbeat(as(first, a))
	h.boot = second
	b := h.start()
	assertResult(t, h.mustHeartbeat(as(second, b)), license.HeartbeatResult{Applied: true, Accepted: ids(b), Released: ids(a)})
	for range 3 {
		assertResult(t, h.mustHeartbeat(as(first, a)), license.HeartbeatResult{})
		assertResult(t, h.mustHeartbeat(as(second, b)), license.HeartbeatResult{Applied: true, Accepted: ids(b)})
		h.checkInvariants()
	}
	if h.state(a) != "released omitted" || h.state(b) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %s, %d counted", h.state(a), h.state(b), h.inUse())
	}
}
