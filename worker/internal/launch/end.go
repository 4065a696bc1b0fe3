package launch

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// killTimeout bounds how long the worker waits for a browser that it ends.
const killTimeout = 20 * time.Second

// Kill ends a session by request and returns it as it ended. A session that has
// ended is returned as it is. Errors: NotFound.
func (s *Service) Kill(ctx context.Context, id uuid.UUID) (session.Session, error) {
	s.mu.Lock()
	run := s.live[id]
	s.mu.Unlock()
	if run != nil {
		run.askToEnd(session.ByRequest)
		select {
		case <-run.over:
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

// Unlicensed ends a session whose start the cloud refused: it has no slot.
func (s *Service) Unlicensed(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.live[id]; run != nil {
		run.askToEnd(session.License)
	}
}

// Browser returns the running browser of a launch.
func (s *Service) Browser(launchID uuid.UUID) (*browser.Browser, bool) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok || found.Status != session.Running {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.live[found.ID]
	if !ok {
		return nil, false
	}
	return run.browser, true
}

// Shutdown refuses new launches, ends every browser and waits for them, as long
// as ctx allows.
func (s *Service) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for _, run := range s.live {
		run.askToEnd(session.Drain)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.active.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("some browsers could not be ended in time")
	}
}

// watch waits for a browser's end, or ends it when told to or when its time is
// up, and sees to what follows.
func (s *Service) watch(run *running) {
	var timeUp <-chan time.Time
	if run.lifetime > 0 {
		timer := time.NewTimer(run.lifetime)
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case <-run.browser.Done():
	case run.reason = <-run.kill:
	case <-timeUp:
		run.reason = session.MaxDuration
	}
	s.terminate(run)
	s.ended(run)
	close(run.over)
}

// terminate kills a browser unless it has ended, and waits until nothing is
// left of it: whoever hears of its end finds its directories free. The browser
// itself is waited for however long that takes: its slot is not given back
// while it may still run.
func (s *Service) terminate(run *running) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := run.browser.Kill(ctx); err != nil {
		s.Logger.Error("a browser, or what it had, resists its end", "launchId", run.session.LaunchID, "error", err)
		<-run.browser.Done()
	}
}

// ended makes the books right after a browser's end.
func (s *Service) ended(run *running) {
	end := run.end(s.Clock.Now())
	run.held.release()
	ended, _ := s.Sessions.End(run.session.ID, end)
	s.mu.Lock()
	delete(s.live, run.session.ID)
	s.mu.Unlock()
	s.Reports.Ended(Ended{
		SessionID: ended.ID, ProfileID: ended.ProfileID, Status: end.Status, Reason: end.Reason, At: end.At,
	})
	s.Logger.Info("session ended", "sessionId", ended.ID, "launchId", ended.LaunchID, "status", end.Status,
		"reason", end.Reason, "browser", run.browser.Exit().String(), "duration", end.At.Sub(ended.StartedAt).Round(time.Millisecond))
}
