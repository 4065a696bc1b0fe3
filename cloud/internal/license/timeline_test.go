package license_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

func (h *fixture) timeline(session uuid.UUID) license.Timeline {
	h.t.Helper()
	found, err := h.Timeline(h.t.Context(), h.org, query[uuid.UUID](h, `SELECT id FROM license_slots WHERE session_id = $1`, session))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// formatMoments formats the moments of a slot, earliest first.
func formatMoments(timeline license.Timeline) string {
	var all []string
	for i, m := range timeline.Moments {
		all = append(all, m.Kind)
		if i > 0 && m.At.Before(timeline.Moments[i-1].At) {
			all = append(all, "out of order")
		}
	}
	return strings.Join(all, " ")
}

func TestTimeline_ListsMomentsOfSlot(t *testing.T) {
	h := newFixture(t, 3)
	session := h.authorize()
	if got := h.timeline(session); formatMoments(got) != "reserved" || got.State != "reserved" || got.LeaseUntil == nil || got.Stale || got.KeyID == nil {
		t.Errorf("reserved: %+v", got)
	}
	report := h.startReport(session)
	report.StartedAt = time.Now().Add(time.Hour) // clamped to the present
	h.mustStart(report)
	for range 3 {
		h.mustHeartbeat(h.heartbeat(session))
	}
	got := h.timeline(session)
	if formatMoments(got) != "reserved started firstHeartbeat lastHeartbeat" || got.State != "running" || got.SessionID != session ||
		*got.ProfileID != h.profile || got.MachineID != h.machine || got.BootID != h.boot || *got.LaunchID != report.LaunchID || *got.BrowserVersion != 156 {
		t.Errorf("running: %+v", got)
	}
	ending := h.endReport(session)
	ending.EndReason = license.Idle
	if _, err := h.End(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	got = h.timeline(session)
	if formatMoments(got) != "reserved started firstHeartbeat lastHeartbeat released" || got.State != "released" || got.LeaseUntil != nil ||
		*got.ReleaseReason != "ended" || *got.EndStatus != license.Killed || *got.EndReason != license.Idle {
		t.Errorf("released: %+v", got)
	}
}

func TestTimeline_ListsEachReleaseAndAdoption(t *testing.T) {
	h := newFixture(t, 3)
	session := h.start()
	h.mustHeartbeat(h.heartbeat(session))
	h.mustHeartbeat(h.heartbeat())
	h.mustHeartbeat(h.heartbeat(session))
	h.exec(`UPDATE license_slots SET lease_until = now()`)
	if got := h.timeline(session); !got.Stale {
		t.Error("a stale slot is not flagged")
	}
	h.mustReclaim()
	if got := formatMoments(h.timeline(session)); got != "reserved started firstHeartbeat omitted adopted lastHeartbeat lapsed" &&
		got != "reserved started firstHeartbeat omitted lastHeartbeat adopted lapsed" {
		t.Error(got)
	}
	h.mustEnd(session)
	if got := formatMoments(h.timeline(session)); !strings.HasSuffix(got, "lapsed released") {
		t.Error(got)
	}
}

func TestTimeline_ForeignOrUnknownSlotIsNotFound(t *testing.T) {
	h := newFixture(t, 3)
	h.start()
	slot := query[uuid.UUID](h, `SELECT id FROM license_slots`)
	_, err := h.Timeline(t.Context(), id(), slot)
	wantFault(t, err, fault.NotFound)
	_, err = h.Timeline(t.Context(), h.org, id())
	wantFault(t, err, fault.NotFound)
	never := id()
	h.mustEnd(never)
	_, err = h.Timeline(t.Context(), h.org, query[uuid.UUID](h, `SELECT id FROM license_slots WHERE session_id = $1`, never))
	wantFault(t, err, fault.NotFound)
}
