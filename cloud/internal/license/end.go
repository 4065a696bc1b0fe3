package license

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// EndReport reports that a session has ended or that its launch failed. Missing fields
// are derived: the status from the reason, the reason from the status, and exited and
// unknown if both are missing. The default time is now.
type EndReport struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	SessionID uuid.UUID
	Status    Status
	EndReason EndReason
	EndedAt   *time.Time // by the worker's clock, for display only
}

func (r EndReport) withDefaults() EndReport {
	if r.Status == "" {
		switch r.EndReason {
		case ClientClose, Idle, MaxDuration, NeverConnected, Unresponsive, KilledReason, LicenseReason, Drain:
			r.Status = Killed
		default:
			r.Status = Exited
		}
	}
	if r.EndReason == "" {
		r.EndReason = Unknown
		if r.Status == Killed {
			r.EndReason = KilledReason
		}
	}
	return r
}

// End releases the slot of a session (specification 3.2), or its reservation if the
// launch failed. A repeated report changes nothing; the first one is kept. For an
// unknown session it inserts a tombstone, so that a late start report is refused; the
// latest maxTombstones of an organization are kept. It returns NotFound for a session
// of another profile, and for an unknown session of an unknown profile.
func (s *Service) End(ctx context.Context, report EndReport) (Session, error) {
	report = report.withDefaults()
	if slotID, ok := s.reservations.take(report.SessionID); ok {
		withdrawn, err := s.cancelReservation(ctx, release{report: report, slotID: slotID})
		if err != nil {
			return Session{}, notFoundIfRemoved(err)
		}
		if withdrawn != nil {
			return *withdrawn, nil
		}
	}
	ended, err := s.releases.Do(ctx, report.OrgID, release{report: report})
	if err != nil {
		return Session{}, notFoundIfRemoved(err)
	}
	return ended.session, ended.err
}
