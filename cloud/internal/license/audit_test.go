package license_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/clock"
)

func TestAudit_LogsRecordsAndRepairs(t *testing.T) {
	h := newFixture(t, 10)
	h.start()
	h.authorize()
	var log bytes.Buffer
	s, err := license.New(t.Context(), h.db, feedObserver{}, slog.New(slog.NewTextHandler(&log, nil)), license.Options{Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, wrong := range []int{7, 0} {
		log.Reset()
		h.exec(`UPDATE license_org SET in_use = $2 WHERE organization_id = $1`, h.org, wrong)
		if n, err := s.Audit(t.Context()); n != 1 || err != nil || h.inUse() != 2 {
			t.Errorf("%d differences, %v; %d counted", n, err, h.inUse())
		}
		got := h.events(license.EventFilter{Kind: new(license.CounterRepaired)})[0]
		if *got.Previous != wrong || *got.Current != 2 || *got.Limit != 10 {
			t.Errorf("recorded %+v", got)
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), h.org.String()) {
			t.Errorf("unexpected log %q", log.String())
		}
	}
	if n, err := s.Audit(t.Context()); n != 0 || err != nil || s.Totals().Repaired != 2 {
		t.Errorf("%d differences afterwards, %v; totals %+v", n, err, s.Totals())
	}
}

// Slots that change during the repair are counted once.
func TestAudit_RepairDuringTrafficIsExact(t *testing.T) {
	h := newFixture(t, -1)
	for range 5 {
		h.exec(`UPDATE license_org SET in_use = in_use + 100 WHERE organization_id = $1`, h.org)
		commit := h.holdLocks(func(tx *sqlx.Tx) {
			tx.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
				VALUES ($1, $2, $3, 'worker-1', $4, 'reserved', now(), now() + interval '1 hour')`, id(), h.org, id(), h.boot)
			tx.MustExec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, h.org)
		})
		var group sync.WaitGroup
		group.Go(func() {
			if n, err := h.Audit(t.Context()); n != 1 || err != nil {
				t.Errorf("%d differences, %v", n, err)
			}
		})
		h.awaitBlocked(1)
		commit()
		group.Wait()
		h.checkInvariants()
	}
}
