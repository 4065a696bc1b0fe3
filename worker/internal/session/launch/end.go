package launch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/session"
)

// killTimeout bounds how long the worker waits for a browser to stop.
const killTimeout = 20 * time.Second

// Kill ends a session by request and returns the ended session. A session that has
// already ended is returned unchanged. Errors: NotFound, Timeout.
func (s *Service) Kill(ctx context.Context, id uuid.UUID) (session.Session, error) {
	return s.kill(ctx, id, session.ByRequest)
}

// KillLaunch is Kill by launch id, with the given reason.
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
			return session.Session{}, fault.Wrap(ctx.Err(), fault.Timeout, "The browser did not stop in time. Retry the request.")
		}
	}
	found, ok := s.Sessions.Get(id)
	if !ok {
		return session.Session{}, fault.Missing("session")
	}
	return found, nil
}

// Shutdown refuses new launches, ends every browser, including warm browsers, and
// waits for them until ctx ends.
func (s *Service) Shutdown(ctx context.Context) error {
	s.controller.Retire()
	s.mu.Lock()
	s.closing = true
	for _, run := range s.live {
		run.requestEnd(session.Drain)
	}
	s.mu.Unlock()
	var warmErr error
	if s.Warm != nil {
		warmErr = s.Warm.Close(ctx)
	}
	return cmp.Or(s.Wait(ctx), warmErr)
}

// Wait waits after Shutdown until every session has ended and its data is saved, or until
// ctx ends.
func (s *Service) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.controller.Wait()
		s.active.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("some browsers did not stop in time")
	}
}

// watch waits until the browser exits. It stops the browser on request or when its
// lifetime ends, and then finalizes the session.
func (s *Service) watch(run *running) {
	run.lifetime.warn = func(end time.Time, reason session.EndReason) {
		s.Happened(run.session.ID, run.session.OrganizationKey, session.Event{Type: session.Expiring, Reason: string(reason), Until: end})
	}
	run.reason = run.lifetime.await(run.browser.Done(), run.endRequests)
	run.browser.Calls().Handovers().Close()
	s.stopBrowser(run)
	s.finalizeSession(run)
	close(run.done)
}

// stopBrowser kills a browser, unless it has exited, and waits until all its
// resources are released, without a time limit: a client that learns of the end must
// find the browser's directories free, the slot must not be released while the
// browser may still run, and the profile's data not before it is saved.
func (s *Service) stopBrowser(run *running) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := run.browser.Kill(ctx); err != nil {
		select {
		case <-run.browser.Done(): // its data is being saved
		default:
			s.Logger.Error("failed to stop browser", "launchId", run.session.LaunchID, "error", err)
		}
		_ = run.browser.Kill(context.Background())
	}
}

// finalizeSession releases resources, records the end and reports it after the
// browser has stopped.
func (s *Service) finalizeSession(run *running) {
	run.resources.release()
	end := run.endState(s.Clock.Now(), s.OutOfMemory())
	run.actions.Close(end.At, audit.End{Status: string(end.Status), Reason: string(end.Reason)})
	ended, _ := s.Sessions.End(run.session.ID, end)
	s.Metrics.countEnd(end)
	s.Tokens.End(run.session.LaunchID.String())
	s.Reports.Ended(Ended{
		SessionID: ended.ID, ProfileID: ended.ProfileID, Status: end.Status, Reason: end.Reason, At: end.At,
		OrganizationKey: run.session.OrganizationKey, Network: &end.Network,
	})
	s.mu.Lock() // after the report: the next authorize must carry this end
	delete(s.live, run.session.ID)
	s.mu.Unlock()
	run.place.Release()
	run.timeline.recordSession(ended)
	s.Logger.Info("session ended", "sessionId", ended.ID, "launchId", ended.LaunchID, "status", end.Status,
		"reason", end.Reason, "browser", run.browser.Exit().String(), "duration", end.At.Sub(ended.StartedAt).Round(time.Millisecond))
}
