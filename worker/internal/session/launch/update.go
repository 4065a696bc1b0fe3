package launch

import (
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

var errEnded = fault.New(fault.Conflict, "The session has ended.")

// Update is a change of a running session.
type Update struct {
	Limits   LimitChanges
	Name     *string           // empty: no name; nil keeps it
	Metadata map[string]string // nil keeps it
}

// Happened reports an event of a session that is running or listed. The key is that of its
// launch, which an ended session does not have.
func (s *Service) Happened(id uuid.UUID, key session.OrganizationKey, e session.Event) {
	found, ok := s.Sessions.Get(id)
	if !ok {
		return
	}
	found.OrganizationKey, e.ID, e.At = key, uuid.New(), s.Clock.Now()
	e.Reason = strings.ReplaceAll(e.Reason, "\x00", "\uFFFD") // the cloud refuses NUL characters
	s.Reports.Happened(found, e)
}

// Update changes a running session and returns it. The cloud learns of a new name and of new
// metadata later. Errors: Validation, NotFound, Conflict after the end.
func (s *Service) Update(id uuid.UUID, update Update) (session.Session, error) {
	run, running := s.lookup(id)
	found, listed := s.Sessions.Get(id)
	switch {
	case !listed:
		return session.Session{}, fault.Missing("session")
	case !running:
		return session.Session{}, errEnded
	}
	if details := update.Limits.check(s.LimitRules.Highest, "", ""); len(details) > 0 {
		return session.Session{}, fault.Invalid(details...)
	}
	if err := run.lifetime.change(update.Limits); err != nil {
		return session.Session{}, err
	}
	if update.Name == nil && update.Metadata == nil {
		return found, nil
	}
	changed, ok := s.Sessions.Relabel(id, update.Name, update.Metadata)
	if !ok {
		return session.Session{}, errEnded
	}
	s.Reports.Changed(changed)
	return changed, nil
}
