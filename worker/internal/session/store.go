package session

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/page"
)

// Retention is how long an ended session stays listed.
const Retention = time.Hour

// Store holds the sessions of this boot. It is safe for concurrent use.
type Store struct {
	clock clock.Clock

	mu       sync.Mutex
	seq      int64
	sessions map[uuid.UUID]Session
	launches map[uuid.UUID]uuid.UUID // launch id -> session id
}

// NewStore returns an empty store.
func NewStore(clock clock.Clock) *Store {
	return &Store{clock: clock, sessions: map[uuid.UUID]Session{}, launches: map[uuid.UUID]uuid.UUID{}}
}

// Add adds a running session and returns it with its sequence number. Live includes
// it from the same moment, so that no heartbeat has a higher number than a session
// that it omits.
func (s *Store) Add(session Session) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	s.seq++
	session.Seq, session.Status = s.seq, Running
	s.sessions[session.ID] = session
	s.launches[session.LaunchID] = session.ID
	return session
}

// AddStep adds a step to the timeline of a running session and returns the session.
// An ended session does not change.
func (s *Store) AddStep(id uuid.UUID, step Step) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[id]
	if ok && session.Status == Running {
		session.Timeline = append(slices.Clip(session.Timeline), step)
		s.sessions[id] = session
	}
	return session
}

// Relabel sets the name and the metadata of a running session, unless they are nil, and
// returns the session with a new sequence number. It returns false if the session is not
// running.
func (s *Store) Relabel(id uuid.UUID, name *string, metadata map[string]string) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[id]
	if !ok || session.Status != Running {
		return session, false
	}
	if name != nil {
		session.Name = *name
	}
	if metadata != nil {
		session.Metadata = metadata
	}
	s.seq++
	session.Seq = s.seq
	s.sessions[id] = session
	return session, true
}

// SetRecording sets the recording of a session.
func (s *Store) SetRecording(id uuid.UUID, recording *Recording) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session, ok := s.sessions[id]; ok {
		session.Recording = recording
		s.sessions[id] = session
	}
}

// SetSaveResult sets whether the browser data of a session was saved, also after its end.
func (s *Store) SetSaveResult(id uuid.UUID, result SaveResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session, ok := s.sessions[id]; ok {
		session.SaveResult = &result
		s.sessions[id] = session
	}
}

// End marks a session as ended and returns it. It returns false if the session is
// not running.
func (s *Store) End(id uuid.UUID, end End) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[id]
	if !ok || session.Status != Running {
		return session, false
	}
	session.Status, session.EndedAt, session.EndReason, session.ExitCode = end.Status, end.At, end.Reason, end.ExitCode
	session.Network = end.Network
	session.Traffic, session.OrganizationKey = end.Traffic, OrganizationKey{}
	session.SaveResult = cmp.Or(session.SaveResult, end.SaveResult) // that of SetSaveResult is later
	session.Timeline = append(slices.Clip(session.Timeline), Step{Ended, end.At})
	s.sessions[id] = session
	return session, true
}

// Get returns a session.
func (s *Store) Get(id uuid.UUID) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	session, ok := s.sessions[id]
	return session, ok
}

// ByLaunch returns the session of a launch.
func (s *Store) ByLaunch(launchID uuid.UUID) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[s.launches[launchID]]
	return session, ok
}

// Live returns the running sessions and a new sequence number that is higher than
// all of theirs.
func (s *Store) Live() (sessions []Session, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	for _, session := range s.sessions {
		if session.Status == Running {
			sessions = append(sessions, session)
		}
	}
	return sessions, s.seq
}

// Filter selects sessions. Empty fields match all.
type Filter struct {
	Status   Status
	Name     string
	Metadata []Label // a session must have all of them
}

// Label is an entry of the metadata of a session.
type Label struct{ Name, Value string }

func (f Filter) matches(s Session) bool {
	if f.Status != "" && s.Status != f.Status || f.Name != "" && s.Name != f.Name {
		return false
	}
	return !slices.ContainsFunc(f.Metadata, func(label Label) bool {
		value, ok := s.Metadata[label.Name]
		return !ok || value != label.Value
	})
}

// List returns a page of sessions. Sort fields are startedAt (default) and endedAt.
func (s *Store) List(filter Filter, request page.Request) page.Page[Session] {
	found := s.matching(filter)
	slices.SortFunc(found, func(a, b Session) int {
		order := a.StartedAt.Compare(b.StartedAt)
		if request.SortBy == "endedAt" {
			order = a.EndedAt.Compare(b.EndedAt)
		}
		order = cmp.Or(order, slices.Compare(a.ID[:], b.ID[:]))
		if request.Desc {
			return -order
		}
		return order
	})
	start := min(request.Offset(), len(found))
	end := min(start+request.Limit, len(found))
	return page.Page[Session]{Request: request, Items: found[start:end], Total: len(found)}
}

func (s *Store) matching(filter Filter) []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	var found []Session
	for _, session := range s.sessions {
		if filter.matches(session) {
			found = append(found, session)
		}
	}
	return found
}

// prune removes sessions that ended before the retention period. The caller holds
// the lock.
func (s *Store) prune() {
	limit := s.clock.Now().Add(-Retention)
	for id, session := range s.sessions {
		if session.Status != Running && session.EndedAt.Before(limit) {
			delete(s.sessions, id)
			delete(s.launches, session.LaunchID)
		}
	}
}
