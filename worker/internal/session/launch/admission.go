package launch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// pendingLaunch is a launch in progress.
type pendingLaunch struct {
	s       *Service
	counted bool
	refused bool // the machine has no capacity
}

// beginLaunch admits a launch if the machine has capacity, or waits for it until then. A
// launch with the worker key is counted immediately, and so is one whose caller's key was
// verified because it can wait. Another launch with a caller's key, which may be invalid,
// is counted only after the cloud has authorized it (countAuthorized). The caller must
// call s.active.Done, and either abandon or addSession.
func (s *Service) beginLaunch(ctx context.Context, request Request, until time.Time) (*pendingLaunch, error) {
	e := &pendingLaunch{s: s}
	s.mu.Lock()
	err := s.checkOpen()
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	if err = s.checkAdmission(); err == nil && len(s.queue) > 0 {
		err = errOthersWait
	}
	var place *queuedLaunch
	switch {
	case err == nil:
		if request.usesWorkerKey() || request.Wait > 0 {
			e.count()
		}
	case request.Wait > 0:
		if place, err = s.enqueue(e); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	default:
		s.mu.Unlock()
		return nil, err
	}
	s.active.Add(1)
	s.mu.Unlock()
	if place == nil {
		return e, nil
	}
	if err := s.awaitAdmission(ctx, place, until.Sub(s.Clock.Now())); err != nil {
		s.active.Done()
		return nil, err
	}
	return e, nil
}

// count counts the launch. The caller holds the lock.
func (e *pendingLaunch) count() {
	e.counted = true
	e.s.launching++
}

// uncount removes the launch from the count. The caller holds the lock.
func (e *pendingLaunch) uncount() {
	if e.counted {
		e.counted = false
		e.s.launching--
		e.s.admitWaiting()
	}
}

// countAuthorized counts a launch that the cloud has authorized, unless it is
// already counted. It returns an error if the machine has no capacity left.
func (e *pendingLaunch) countAuthorized() error {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.counted {
		return nil
	}
	if err := e.s.checkOpen(); err != nil {
		return err
	}
	if err := e.s.checkAdmission(); err != nil {
		e.refused = true
		return err
	}
	e.count()
	return nil
}

// abandon removes a failed launch from the count.
func (e *pendingLaunch) abandon() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.uncount()
}

var (
	errShuttingDown = fault.New(fault.Unavailable, "This worker is shutting down.")
	errDraining     = fault.New(fault.Unavailable, "This worker is draining.")
)

// checkOpen returns an error if the worker accepts no launches. The caller holds the lock.
func (s *Service) checkOpen() error {
	switch {
	case s.closing, s.retired:
		return errShuttingDown
	case s.draining:
		return errDraining
	}
	return nil
}

// checkAdmission returns an error if the machine has no capacity for another launch. The
// caller must hold the lock and count the launch before releasing it, so that two launches
// never get the same capacity.
func (s *Service) checkAdmission() error {
	if s.Admission != nil {
		return s.Admission.Admit(len(s.live), s.launching)
	}
	return nil
}

// addSession adds a session for a started browser and makes its launch a running
// one. Both happen under one lock, so that a client that sees the session can also
// end it.
func (s *Service) addSession(run *running, added session.Session) {
	s.Tokens.Begin(added.LaunchID.String())
	s.observeHandovers(run, added)
	context.AfterFunc(run.browser.Calls().Closing(), run.closeByClient)
	s.mu.Lock()
	run.session = s.Sessions.Add(added)
	s.live[added.ID] = run
	s.launching--
	if s.closing {
		run.requestEnd(session.Drain)
	}
	s.mu.Unlock()
	s.active.Go(func() { s.watch(run) })
}

// Counts returns the numbers of running browsers and of launches in progress.
func (s *Service) Counts() (running, launching int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live), s.launching
}

// Drain refuses new launches. Sessions and launches in progress continue.
func (s *Service) Drain() { s.setDraining(true) }

// Resume accepts launches again after Drain.
func (s *Service) Resume() { s.setDraining(false) }

// Retire is a Drain that Resume does not undo. The worker calls it before it stops.
func (s *Service) Retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.Drain()
}

func (s *Service) setDraining(draining bool) {
	s.switchDraining(draining)
	if s.DrainChanged != nil {
		s.DrainChanged()
	}
}

func (s *Service) switchDraining(draining bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = draining
	switch {
	case draining || s.retired:
		s.refuseWaiting(s.checkOpen())
	case s.waiting.Err() != nil:
		s.waiting, s.refuse = context.WithCancel(context.Background())
	}
	switch {
	case s.Warm == nil:
	case draining || s.retired:
		s.Warm.Drain()
	default:
		s.Warm.Resume()
	}
}

// Draining reports whether new launches are refused because of Drain, Retire or
// Shutdown.
func (s *Service) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining || s.retired || s.closing
}

// lookup returns the running browser of a session.
func (s *Service) lookup(id uuid.UUID) (*running, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.live[id]
	return run, ok
}
