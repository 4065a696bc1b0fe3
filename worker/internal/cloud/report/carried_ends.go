package report

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// maxCarriedEnds bounds the ends that one authorize request carries. The
// contract has the same limit.
const maxCarriedEnds = 100

// Unacknowledged implements launch.Reports. It skips ends whose start or
// commit is still pending: the cloud must receive these first.
func (r *Reporter) Unacknowledged(key session.OrganizationKey) []launch.Ended {
	key = r.callerKey(key)
	var ends []launch.Ended
	for _, e := range r.journal.pending() {
		if e.Start != nil || e.Commit != nil || e.End == nil || e.carried || !e.key().Equal(key) {
			continue
		}
		ends = append(ends, launch.Ended{
			SessionID: e.End.SessionID, ProfileID: e.End.ProfileID, Status: session.Status(e.End.Status),
			Reason: session.EndReason(e.End.Reason), At: e.End.At, OrganizationKey: e.End.OrganizationKey,
		})
		if len(ends) == maxCarriedEnds {
			break
		}
	}
	return ends
}

// Carried implements launch.Reports. The ends stay in the journal until the
// cloud has acknowledged each report.
func (r *Reporter) Carried(ends []launch.Ended) {
	for _, end := range ends {
		r.journal.markCarried(end.SessionID)
	}
}

// Deliver implements launch.Reports.
func (r *Reporter) Deliver(ctx context.Context, key session.OrganizationKey) bool {
	key = r.callerKey(key)
	waiting := func() (found []entry) {
		for _, e := range r.journal.pending() {
			if (e.Start != nil || e.Commit != nil) && e.End != nil && e.key().Equal(key) {
				found = append(found, e)
			}
		}
		return found
	}
	return len(waiting()) > 0 && r.deliverEntries(ctx, waiting)
}

// markCarried records that an authorize request has carried the end of a
// session.
func (j *journal) markCarried(id uuid.UUID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.entries[id]; ok {
		e.carried = true
		j.entries[id] = e
	}
}
