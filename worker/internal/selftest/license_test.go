package selftest

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestLicense_AllowsOnlyOwnSpecs(t *testing.T) {
	l := newLicense()
	id := uuid.New()
	for name, request := range map[string]launch.Authorization{
		"a profile":                   {SessionID: id, ProfileID: &id},
		"a spec of a client":          {SessionID: id, Spec: map[string]any{"browserVersion": 150}, BrowserVersion: 150},
		"a spec of another self-test": {SessionID: id, Spec: newLicense().spec(150).Body, BrowserVersion: 150},
	} {
		if _, err := l.Authorize(t.Context(), request); !fault.Is(err, fault.PaymentRequired) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	grant, err := l.Authorize(t.Context(), launch.Authorization{SessionID: id, Spec: l.spec(150).Body, BrowserVersion: 150})
	if err != nil || grant.Profile.BrowserVersion != 150 || grant.Profile.ID == uuid.Nil {
		t.Errorf("an own spec: got %+v, %v", grant, err)
	}
}

func TestLicense_FindsWrongReports(t *testing.T) {
	const killed, crash = session.ByRequest, session.Crash
	for _, tc := range []struct {
		name    string
		unknown bool
		starts  int
		ends    []session.EndReason
		want    string // in the one problem; empty for none
	}{
		{name: "correct reports", starts: 1, ends: []session.EndReason{killed}},
		{name: "ended twice", starts: 1, ends: []session.EndReason{killed, killed}, want: "ended for [killed killed]"},
		{name: "never ended", starts: 1, want: "ended for []"},
		{name: "started twice", starts: 2, ends: []session.EndReason{killed}, want: "started 2 times"},
		{name: "never started", ends: []session.EndReason{killed}, want: "started 0 times"},
		{name: "for another reason", starts: 1, ends: []session.EndReason{crash}, want: "ended for [crash]"},
		{name: "not authorized", unknown: true, starts: 1, ends: []session.EndReason{killed}, want: "started 0 times"},
	} {
		l, id := newLicense(), uuid.New()
		if !tc.unknown {
			if _, err := l.Authorize(t.Context(), launch.Authorization{SessionID: id, Spec: l.spec(1).Body}); err != nil {
				t.Fatal(err)
			}
		}
		for range tc.starts {
			if err := l.Started(t.Context(), session.Session{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		for _, reason := range tc.ends {
			l.Ended(launch.Ended{SessionID: id, Reason: reason})
		}
		if got := l.problems(); tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
