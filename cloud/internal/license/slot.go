package license

import (
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// The states of a slot.
const (
	reserved = "reserved" // until its launch starts
	running  = "running"
	released = "released"
)

// Why a slot was released. Only an end report is final: a session that was omitted or
// has expired counts again if its worker reports it.
const (
	reasonEnded   = "ended"   // the worker reported the end
	reasonOmitted = "omitted" // a heartbeat of the worker omitted it
	reasonLapsed  = "lapsed"  // its lease expired
)

// slotColumns are the columns of slot, for a statement with the table alias s.
const slotColumns = `s.id, s.organization_id, s.session_id, s.profile_id, s.machine_id, s.boot_id, s.state, s.launch_id,
	s.browser_version, s.started_at, s.heartbeat_at, s.released_at, s.release_reason, s.ended_at, s.end_status, s.end_reason`

// orgFilter restricts a statement that finds slots s by id to the organization $1. It
// is written so that no index matches it: in a small database the planner would
// otherwise read all slots of the organization instead of looking up the ids.
const orgFilter = `(s.organization_id = $1) IS TRUE`

// slot is a row of license_slots.
type slot struct {
	ID             uuid.UUID  `db:"id"`
	OrgID          uuid.UUID  `db:"organization_id"`
	SessionID      uuid.UUID  `db:"session_id"`
	ProfileID      *uuid.UUID `db:"profile_id"`
	MachineID      *string    `db:"machine_id"`
	BootID         *uuid.UUID `db:"boot_id"`
	State          string     `db:"state"`
	LaunchID       *uuid.UUID `db:"launch_id"`
	BrowserVersion *int       `db:"browser_version"`
	StartedAt      *time.Time `db:"started_at"`
	HeartbeatAt    *time.Time `db:"heartbeat_at"`
	ReleasedAt     *time.Time `db:"released_at"`
	ReleaseReason  *string    `db:"release_reason"`
	EndedAt        *time.Time `db:"ended_at"`
	EndStatus      *Status    `db:"end_status"`
	EndReason      *EndReason `db:"end_reason"`
}

// scanTargets returns the destinations of slotColumns.
func (s *slot) scanTargets() []any {
	return []any{
		&s.ID, &s.OrgID, &s.SessionID, &s.ProfileID, &s.MachineID, &s.BootID, &s.State, &s.LaunchID,
		&s.BrowserVersion, &s.StartedAt, &s.HeartbeatAt, &s.ReleasedAt, &s.ReleaseReason, &s.EndedAt, &s.EndStatus, &s.EndReason,
	}
}

// releasedBy reports whether the slot was released for that reason.
func (s *slot) releasedBy(reason string) bool {
	return s.ReleaseReason != nil && *s.ReleaseReason == reason
}

// wasGivenUp reports whether the slot was released, or may have been before a
// heartbeat adopted it: other reservations are rarely part of a heartbeat.
func (s *slot) wasGivenUp() bool { return s.State == released || s.HeartbeatAt != nil }

// belongsTo reports whether the slot belongs to that boot of that machine.
func (s *slot) belongsTo(machineID string, bootID uuid.UUID) bool {
	return s.MachineID != nil && *s.MachineID == machineID && s.BootID != nil && *s.BootID == bootID
}

// acceptsProfile reports whether the slot can be used for the profile. A slot that was
// reserved without a profile accepts any.
func (s *slot) acceptsProfile(profileID uuid.UUID) bool {
	return s.ProfileID == nil || *s.ProfileID == profileID
}

// toStarted returns a running slot for the observer.
func (s *slot) toStarted() Started {
	return Started{
		OrgID: s.OrgID, SessionID: s.SessionID, ProfileID: *s.ProfileID, MachineID: *s.MachineID,
		LaunchID: *s.LaunchID, BrowserVersion: *s.BrowserVersion, StartedAt: s.StartedAt.UTC(),
	}
}

// toEnded returns a released slot for the observer.
func (s *slot) toEnded() Ended {
	e := Ended{
		OrgID: s.OrgID, SessionID: s.SessionID, ProfileID: s.ProfileID, LaunchID: s.LaunchID,
		StartedAt: utc(s.StartedAt), EndedAt: s.EndedAt.UTC(), Status: *s.EndStatus, EndReason: *s.EndReason,
		GivenUp: !s.releasedBy(reasonEnded),
	}
	if s.MachineID != nil {
		e.MachineID = *s.MachineID
	}
	if s.BrowserVersion != nil {
		e.BrowserVersion = *s.BrowserVersion
	}
	return e
}

func toEndedAll(slots []slot) []Ended {
	all := make([]Ended, len(slots))
	for i := range slots {
		all[i] = slots[i].toEnded()
	}
	return all
}

// Session is the answer to a start or end report.
type Session struct {
	SessionID uuid.UUID
	SlotID    *uuid.UUID // nil if the session never had a slot
	StartedAt *time.Time
	EndedAt   *time.Time // nil while it runs, as are the next two
	Status    *Status
	EndReason *EndReason
}

// toSession converts the row. A tombstone, which has no machine, has no slot id.
func (s *slot) toSession() Session {
	session := Session{
		SessionID: s.SessionID, StartedAt: utc(s.StartedAt),
		EndedAt: utc(s.EndedAt), Status: s.EndStatus, EndReason: s.EndReason,
	}
	if s.MachineID != nil {
		session.SlotID = &s.ID
	}
	return session
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func conflict(message string) error { return fault.New(fault.Conflict, message) }
