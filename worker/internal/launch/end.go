package launch

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// killTimeout bounds how long the worker waits for a browser that it ends.
const killTimeout = 20 * time.Second

// Kill ends a session by request and returns it as it ended. A session that has
// ended is returned as it is. Errors: NotFound, Timeout.
func (s *Service) Kill(ctx context.Context, id uuid.UUID) (session.Session, error) {
	return s.kill(ctx, id, session.ByRequest)
}

// KillLaunch is Kill by the id of a launch, and for a reason of its own.
func (s *Service) KillLaunch(ctx context.Context, launchID uuid.UUID, reason session.EndReason) (session.Session, error) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok {
		return session.Session{}, fault.Missing("session")
	}
	return s.kill(ctx, found.ID, reason)
}

func (s *Service) kill(ctx context.Context, id uuid.UUID, reason session.EndReason) (session.Session, error) {
	if run, ok := s.lookup(id); ok {
		run.requestEnd(reason)
		select {
		case <-run.done:
		case <-ctx.Done():
			return session.Session{}, fault.Wrap(ctx.Err(), fault.Timeout, "The browser is still being ended.")
		}
	}
	found, ok := s.Sessions.Get(id)
	if !ok {
		return session.Session{}, fault.Missing("session")
	}
	return found, nil
}

// KillUnlicensed ends a session whose start the cloud refused: it has no slot.
func (s *Service) KillUnlicensed(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.live[id]; run != nil {
		run.requestEnd(session.License)
	}
}

// Shutdown refuses new launches, ends every browser, those that wait for a launch
// too, and waits for them, as long as ctx allows.
func (s *Service) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for _, run := range s.live {
		run.requestEnd(session.Drain)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.active.Wait(); close(done) }()
	var kept error
	if s.Warm != nil {
		kept = s.Warm.Close(ctx)
	}
	select {
	case <-done:
		return kept
	case <-ctx.Done():
		return errors.New("some browsers could not be ended in time")
	}
}

// watch waits for a browser's end, or ends it when told to, when its time is up
// or when nobody uses it, and sees to what follows.
func (s *Service) watch(run *running) {
	idle, stop := s.idleTicker(run)
	defer stop()
	var timeUp <-chan time.Time
	if run.maxDuration > 0 {
		timer := time.NewTimer(run.maxDuration)
		defer timer.Stop()
		timeUp = timer.C
	}
	for waiting := true; waiting; {
		waiting = false
		select {
		case <-run.browser.Done():
		case run.reason = <-run.endRequests:
		case <-timeUp:
			run.reason = session.MaxDuration
		case <-idle:
			if waiting = s.Clock.Now().Sub(run.activity.Last()) < run.idleTimeout; !waiting {
				run.reason = session.Idle
			}
		}
	}
	s.stopBrowser(run)
	s.finalizeSession(run)
	close(run.done)
}

// Bounds of how often it is looked whether a browser is used.
const (
	minIdlePoll = 50 * time.Millisecond
	maxIdlePoll = 10 * time.Second
)

// idleTicker ticks when it is time to look. The meter knows when a client was
// active only as exactly as it is asked often, so it is asked several times
// within the limit: a session ends at most a tenth of it, or ten seconds, late.
func (s *Service) idleTicker(run *running) (ticks <-chan time.Time, stop func()) {
	if run.idleTimeout <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(min(max(run.idleTimeout/10, minIdlePoll), maxIdlePoll))
	return ticker.C, ticker.Stop
}

// stopBrowser kills a browser unless it has ended, and waits until nothing is
// left of it, however long that takes: whoever hears of its end finds its
// directories free, its slot is not given back while it may still run, and its
// data not before they are saved.
func (s *Service) stopBrowser(run *running) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := run.browser.Kill(ctx); err != nil {
		s.Logger.Error("a browser, or what it had, resists its end", "launchId", run.session.LaunchID, "error", err)
		_ = run.browser.Kill(context.Background()) // who saves its data may still wait for others
	}
}

// finalizeSession makes the books right after a browser's end.
func (s *Service) finalizeSession(run *running) {
	run.resources.release()
	end := run.endState(s.Clock.Now(), s.OutOfMemory())
	ended, _ := s.Sessions.End(run.session.ID, end)
	s.Tokens.End(run.session.LaunchID.String())
	s.Reports.Ended(Ended{
		SessionID: ended.ID, ProfileID: ended.ProfileID, Status: end.Status, Reason: end.Reason, At: end.At,
		OrganizationKey: run.session.OrganizationKey,
	})
	s.mu.Lock() // whoever finds it ended here finds its end with the next authorize
	delete(s.live, run.session.ID)
	s.mu.Unlock()
	run.timeline.recordSession(ended)
	s.Logger.Info("session ended", "sessionId", ended.ID, "launchId", ended.LaunchID, "status", end.Status,
		"reason", end.Reason, "browser", run.browser.Exit().String(), "duration", end.At.Sub(ended.StartedAt).Round(time.Millisecond))
}
