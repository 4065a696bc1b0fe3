package launch

import (
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// enter counts a launch that begins, when the machine has room for it: asking
// and counting are one step, so that no two launches are given the same room.
// leave, or list, must follow.
func (s *Service) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing, s.retired:
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	case s.draining:
		return fault.New(fault.Unavailable, "This worker is draining.")
	}
	if s.Admission != nil {
		if err := s.Admission.Admit(len(s.live), s.launching); err != nil {
			return err
		}
	}
	s.launching++
	s.active.Add(1)
	return nil
}

// leave ends a launch that came to nothing.
func (s *Service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launching--
}

// list makes a started browser a session, and its launch a running one: in one
// step, so that whoever sees the session can end it.
func (s *Service) list(run *running, of session.Session) {
	s.mu.Lock()
	run.session = s.Sessions.Add(of)
	s.live[of.ID] = run
	s.launching--
	if s.closing {
		run.askToEnd(session.Drain)
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
