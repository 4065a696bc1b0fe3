package launch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

const (
	// closeTimeout is how long a browser may take to end after it has accepted
	// Browser.close. Then it is killed.
	closeTimeout = 10 * time.Second
	// exitTimeout is how long a browser may take to end after it has closed a socket. Then
	// it counts as running.
	exitTimeout = 5 * time.Second
	// recordTimeout bounds how long a client waits until an end is recorded.
	recordTimeout = 30 * time.Second
)

// BindClient makes a session count as ending from the time when isLeaving returns true: its
// client has sent a close frame, or has closed the connection, although the worker may not
// have read that yet. The caller then ends the session. isLeaving must not block.
func (s *Service) BindClient(launchID uuid.UUID, isLeaving func() bool) {
	if run, ok := s.runningLaunch(launchID); ok {
		run.clientLeaving.Store(&isLeaving)
	}
}

// RequestEnd makes a session end with this reason, unless it ends already. It returns at
// once: AwaitEnd waits for the end.
func (s *Service) RequestEnd(launchID uuid.UUID, reason session.EndReason) {
	if run, ok := s.runningLaunch(launchID); ok {
		run.requestEnd(reason)
	}
}

func (s *Service) runningLaunch(launchID uuid.UUID) (*running, bool) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok {
		return nil, false
	}
	return s.lookup(found.ID)
}

// AwaitEnd waits, for a bounded time, until the end of a session is recorded that is
// requested, or whose browser has closed a socket or accepted Browser.close: a client must
// not see the end before, or its next launch could be refused. It returns false if the
// browser continues to run or ctx ends first.
func (s *Service) AwaitEnd(ctx context.Context, launchID uuid.UUID) (ended session.Session, ok bool) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok {
		return session.Session{}, false
	}
	if run, ok := s.lookup(found.ID); ok && !run.awaitRecord(ctx) {
		return session.Session{}, false
	}
	return s.Sessions.Get(found.ID)
}

// awaitRecord waits until the end is recorded. It returns false if the session does not
// begin to end within exitTimeout, or if ctx ends first.
func (r *running) awaitRecord(ctx context.Context) bool {
	exit := time.NewTimer(exitTimeout)
	defer exit.Stop()
	select {
	case <-r.browser.Done():
	case <-r.ending.Done():
	case <-exit.C:
		return false
	case <-ctx.Done():
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return r.awaitEnd(ctx)
}

// awaitEnd waits until the session's end is recorded. It returns false if ctx ends first.
func (r *running) awaitEnd(ctx context.Context) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// isEnding reports whether the session certainly ends soon, or has ended.
func (r *running) isEnding() bool {
	select {
	case <-r.browser.Done():
		return true
	case <-r.ending.Done():
		return true
	default:
		isLeaving := r.clientLeaving.Load()
		return isLeaving != nil && (*isLeaving)()
	}
}

// closeByClient is called when the browser has accepted Browser.close.
func (r *running) closeByClient() {
	r.markEnding()
	time.AfterFunc(closeTimeout, func() { r.requestEnd(session.ClientClose) })
}
