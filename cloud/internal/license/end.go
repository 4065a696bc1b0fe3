package license

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// EndReport tells that a session is over, or that its launch failed. Kind is
// left empty is derived: a status from the reason, a reason from the status, and
// both from nothing as exited for an unknown reason; the time is now.
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
		case ClientClose, Idle, MaxDuration, Unresponsive, KilledReason, LicenseReason, Drain:
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

// End releases a session's slot (specification 3.2), or its reservation when
// the launch failed. The same report again changes nothing; the first one
// stands. A session never heard of is remembered as ended, so that a start that
// comes late is refused; of an organization the latest maxTombstones of these
// are remembered. It returns NotFound for a session of another profile, and for
// one never heard of whose profile there is not.
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
