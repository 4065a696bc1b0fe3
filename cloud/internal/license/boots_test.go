package license_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
)

func TestAHeartbeatOfAnOldBootIsIgnored(t *testing.T) {
	v4 := func() uuid.UUID { return uuid.New() }
	for name, test := range map[string]struct {
		boot    func() uuid.UUID
		arrange func(h *house, old license.HeartbeatReport)
		first   func(h *house) uuid.UUID // what makes the new boot known
	}{
		"known before": {
			boot:    v4,
			arrange: func(h *house, old license.HeartbeatReport) { h.mustBeat(old) },
			first:   func(h *house) uuid.UUID { s := h.start(); h.mustBeat(h.beat(s)); return s },
		},
		"known before, replaced by a start": {
			boot:    v4,
			arrange: func(h *house, old license.HeartbeatReport) { h.mustBeat(old) },
			first:   func(h *house) uuid.UUID { return h.start() },
		},
		"known from its starts": {
			boot:    v4,
			arrange: func(h *house, _ license.HeartbeatReport) { h.start() },
			first:   func(h *house) uuid.UUID { return h.start() },
		},
		"never heard of, but older": {
			boot:    id,
			arrange: func(*house, license.HeartbeatReport) {},
			first:   func(h *house) uuid.UUID { s := h.start(); h.mustBeat(h.beat(s)); return s },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 5)
			h.boot = test.boot()
			old := h.beat()
			test.arrange(h, old)
			h.boot = test.boot()
			h.seq.Store(0)
			session := test.first(h)
			old.Seq += 100
			answers(t, h.mustBeat(old), license.HeartbeatResult{})
			if h.state(session) != "running" {
				t.Errorf("the new boot's session is %s", h.state(session))
			}
			leftovers := h.leftovers()
			answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{
				Applied: true, Accepted: ids(session), Released: leftovers,
			})
		})
	}
}

// leftovers are live sessions of another boot than the house's: what its next
// heartbeat releases.
func (h *house) leftovers() []uuid.UUID {
	h.t.Helper()
	var sessions []uuid.UUID
	err := h.db.Select(&sessions, `SELECT session_id FROM license_slots WHERE boot_id <> $1 AND released_at IS NULL`, h.boot)
	if err != nil {
		h.t.Fatal(err)
	}
	return sessions
}

func TestAReservationOfABootYetUnheardOfSurvivesTheOldBootsHeartbeat(t *testing.T) {
	h := open(t, 5)
	old := h.beat()
	h.mustBeat(old)
	h.boot = id()
	session := h.authorize()
	old.Seq++
	answers(t, h.mustBeat(old), license.HeartbeatResult{Applied: true})
	if h.state(session) != "reserved" {
		t.Errorf("the new boot's reservation is %s", h.state(session))
	}
}

// A host whose clock went back has a new boot that looks older. It is listened
// to when the other has been silent for as long as a session may be.
func TestABootThatLooksOlderTakesOverFromASilentOne(t *testing.T) {
	h := open(t, 5)
	older := h.boot
	h.boot = id()
	h.mustBeat(h.beat())
	h.boot = older
	if h.mustBeat(h.beat()).Applied {
		t.Error("an older boot was listened to at once")
	}
	h.exec(`UPDATE license_machines SET heartbeat_at = heartbeat_at - interval '5 minutes'`)
	if !h.mustBeat(h.beat()).Applied {
		t.Error("it is never listened to")
	}
}

func TestTwoWorkersOfOneNameDoNotTakeTurns(t *testing.T) {
	h := open(t, 10)
	first, second := id(), id()
	as := func(boot uuid.UUID, sessions ...uuid.UUID) license.HeartbeatReport {
		h.boot = boot
		return h.beat(sessions...)
	}
	h.boot = first
	a := h.start()
	h.mustBeat(as(first, a))
	h.boot = second
	b := h.start()
	answers(t, h.mustBeat(as(second, b)), license.HeartbeatResult{Applied: true, Accepted: ids(b), Released: ids(a)})
	for range 3 {
		answers(t, h.mustBeat(as(first, a)), license.HeartbeatResult{})
		answers(t, h.mustBeat(as(second, b)), license.HeartbeatResult{Applied: true, Accepted: ids(b)})
		h.checkBooks()
	}
	if h.state(a) != "released omitted" || h.state(b) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %s, %d counted", h.state(a), h.state(b), h.inUse())
	}
}
