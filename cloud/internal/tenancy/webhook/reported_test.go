package webhook

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// reasons returns the reasons of the recorded handovers of an organization.
func (f *fixture) reasons(org uuid.UUID) (found []string) {
	f.t.Helper()
	types, data := f.recorded(org)
	for i, kind := range types {
		if kind == "handover.requested" {
			found = append(found, data[i]["reason"].(string))
		}
	}
	return found
}

func handover(id uuid.UUID, reason string) SessionEvent {
	return SessionEvent{ID: id, Type: "handover.requested", Data: map[string]any{"reason": reason}}
}

func TestReport_RepeatedEventHasNoEffect(t *testing.T) {
	f := newFixture(t)
	f.endpoint("https://hooks.example.com")
	session, a, b, c := f.startSession(f.org), uuid.New(), uuid.New(), uuid.New()
	f.must(f.Report(t.Context(), f.org, session, nil, []SessionEvent{handover(a, "a"), handover(b, "b")}))
	f.must(f.Report(t.Context(), f.org, session, nil, []SessionEvent{handover(a, "a"), handover(b, "b"), handover(c, "c")}))
	f.must(f.Report(t.Context(), f.org, session, nil, nil))
	if got := f.reasons(f.org); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}

// TestReport_IgnoresOtherSessions reports events of sessions that the caller may not
// report, and one that another organization has reported with the same id.
func TestReport_IgnoresOtherSessions(t *testing.T) {
	f := newFixture(t)
	other := f.tenant()
	f.exec(`INSERT INTO event_readers (organization_id, read_until) VALUES ($1, now() + interval '1 hour'), ($2, now() + interval '1 hour')`, f.org, other)
	id, own, foreign, late := uuid.New(), f.startSession(f.org), f.startSession(other), f.startSession(f.org)
	f.exec(`UPDATE activity_sessions SET status = 'killed', ended_at = now() - interval '25 hours' WHERE id = $1`, late)
	for reason, report := range map[string]struct {
		session uuid.UUID
		machine *string
	}{
		"another organization": {foreign, nil}, "another machine": {own, new("worker-2")}, "ended yesterday": {late, nil}, "unknown": {uuid.New(), nil},
	} {
		f.must(f.Report(t.Context(), f.org, report.session, report.machine, []SessionEvent{handover(uuid.New(), reason)}))
	}
	f.must(f.Report(t.Context(), other, foreign, new("worker-1"), []SessionEvent{handover(id, "theirs")}))
	f.must(f.Report(t.Context(), f.org, own, new("worker-1"), []SessionEvent{handover(id, "ours")}))
	if ours, theirs := f.reasons(f.org), f.reasons(other); !slices.Equal(ours, []string{"ours"}) || !slices.Equal(theirs, []string{"theirs"}) {
		t.Errorf("got %q and %q", ours, theirs)
	}
}

func TestReport_IsRecordedOnlyIfEventsAre(t *testing.T) {
	f := newFixture(t)
	f.must(f.Report(t.Context(), f.org, f.startSession(f.org), nil, []SessionEvent{handover(uuid.New(), "nobody reads it")}))
	if got := f.reasons(f.org); got != nil {
		t.Errorf("got %q", got)
	}
}
