package selftest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// license replaces the cloud for the launches of one self-test: it implements launch.License
// and launch.Reports. It allows only requests that carry its own specs, which no client and no
// configuration can create.
type license struct {
	mu       sync.Mutex
	sessions map[uuid.UUID]*reportedSession // that were authorized
}

// reportedSession is what was reported about a session.
type reportedSession struct {
	starts int
	ends   []session.EndReason
}

func newLicense() *license { return &license{sessions: map[uuid.UUID]*reportedSession{}} }

// spec returns a spec that Authorize allows.
func (l *license) spec(version int) *launch.Spec {
	return &launch.Spec{BrowserVersion: version, Body: l}
}

// Authorize implements launch.License.
func (l *license) Authorize(_ context.Context, request launch.Authorization) (launch.Grant, error) {
	if own, ok := request.Spec.(*license); !ok || own != l {
		return launch.Grant{}, fault.New(fault.PaymentRequired, "The license of the self-test allows only its own launches.")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[request.SessionID] = &reportedSession{}
	return launch.Grant{Profile: launch.Profile{ID: uuid.New(), Name: "Self-test", BrowserVersion: request.BrowserVersion}}, nil
}

// VerifyKey implements launch.License: no key is valid.
func (l *license) VerifyKey(context.Context, session.OrganizationKey) error {
	return fault.New(fault.Unauthenticated, "The self-test has no organizations.")
}

// Profile implements launch.License: there are no profiles.
func (l *license) Profile(context.Context, session.OrganizationKey, uuid.UUID) (launch.Profile, error) {
	return launch.Profile{}, fault.Missing("profile")
}

// Started implements launch.Reports.
func (l *license) Started(_ context.Context, s session.Session) error {
	l.record(s.ID, func(r *reportedSession) { r.starts++ })
	return nil
}

// Ended implements launch.Reports.
func (l *license) Ended(ended launch.Ended) {
	l.record(ended.SessionID, func(r *reportedSession) { r.ends = append(r.ends, ended.Reason) })
}

// record changes what is known about a session; nothing if it was not authorized.
func (l *license) record(id uuid.UUID, change func(r *reportedSession)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[id] == nil {
		l.sessions[id] = &reportedSession{starts: -1} // problems reports it
	}
	change(l.sessions[id])
}

// Changed implements launch.Reports.
func (l *license) Changed(session.Session) {}

// Happened implements launch.Reports.
func (l *license) Happened(session.Session, session.Event) {}

// Unacknowledged implements launch.Reports: every report is acknowledged at once.
func (l *license) Unacknowledged(session.OrganizationKey) []launch.Ended { return nil }

// Carried implements launch.Reports.
func (l *license) Carried([]launch.Ended) {}

// Deliver implements launch.Reports.
func (l *license) Deliver(context.Context, session.OrganizationKey) bool { return false }

// problems returns the sessions that were not reported correctly: the start and the end of each
// once, the end with its reason.
func (l *license) problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for id, r := range l.sessions {
		if r.starts != 1 || !slices.Equal(r.ends, []session.EndReason{session.ByRequest}) {
			found = append(found, fmt.Sprintf("session %s: started %d times, ended for %v", id, max(r.starts, 0), r.ends))
		}
	}
	return found
}
