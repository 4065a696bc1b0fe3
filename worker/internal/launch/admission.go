package launch

import (
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// pendingLaunch is a launch that has begun.
type pendingLaunch struct {
	s       *Service
	counted bool
}

// beginLaunch begins a launch when the machine has room for it. One that the worker key
// has asked for is counted at once; one with a caller's key, which may be made up,
// when the cloud has allowed it, by count. s.active.Done and leave, or list, must
// follow.
func (s *Service) beginLaunch(request Request) (*pendingLaunch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkAdmission(); err != nil {
		return nil, err
	}
	e := &pendingLaunch{s: s, counted: request.usesWorkerKey()}
	if e.counted {
		s.launching++
	}
	s.active.Add(1)
	return e, nil
}

// countAuthorized counts a launch that the cloud has allowed, unless it is counted already,
// or says why it can't start any more.
func (e *pendingLaunch) countAuthorized() error {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.counted {
		return nil
	}
	if err := e.s.checkAdmission(); err != nil {
		return err
	}
	e.counted = true
	e.s.launching++
	return nil
}

// abandon ends a launch that came to nothing.
func (e *pendingLaunch) abandon() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.counted {
		e.s.launching--
	}
}

// checkAdmission says why another launch can't start. The caller holds the lock, and counts
// the launch before it lets go: no two launches are given the same room.
func (s *Service) checkAdmission() error {
	switch {
	case s.closing, s.retired:
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	case s.draining:
		return fault.New(fault.Unavailable, "This worker is draining.")
	}
	if s.Admission != nil {
		return s.Admission.Admit(len(s.live), s.launching)
	}
	return nil
}

// addSession makes a started browser a session, and its launch a running one: in one
// step, so that whoever sees the session can end it.
func (s *Service) addSession(run *running, of session.Session) {
	s.Tokens.Begin(of.LaunchID.String())
	s.mu.Lock()
	run.session = s.Sessions.Add(of)
	s.live[of.ID] = run
	s.launching--
	if s.closing {
		run.requestEnd(session.Drain)
	}
	s.mu.Unlock()
	s.active.Go(func() { s.watch(run) })
}

// Counts is how many browsers run, and how many launches are under way.
func (s *Service) Counts() (running, launching int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live), s.launching
}

// Drain refuses new launches from now on; what runs, or is being launched, goes
// on.
func (s *Service) Drain() { s.setDraining(true) }

// Resume takes launches again after Drain.
func (s *Service) Resume() { s.setDraining(false) }

// Retire is a Drain that no Resume ends: the worker is about to stop.
func (s *Service) Retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.Drain()
}

func (s *Service) setDraining(draining bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = draining
	switch {
	case s.Warm == nil:
	case draining || s.retired:
		s.Warm.Drain()
	default:
		s.Warm.Resume()
	}
}

// Draining reports whether new launches are refused, for Drain, Retire or
// Shutdown.
func (s *Service) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining || s.retired || s.closing
}

// lookup returns a session's browser while it runs.
func (s *Service) lookup(id uuid.UUID) (*running, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.live[id]
	return run, ok
}
