package launch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/browser-svc/svc/shared/fault"
)

// A launch with waitSeconds waits for two things, in this order, so that it never holds a
// slot of its organization while it waits for this machine:
//
//   - For capacity of this machine: a queue in memory, first come, first served. The
//     first launch is admitted when a session or a launch ends, or when a sample of the
//     machine allows it (queuePoll). A launch that does not wait is refused while others
//     do. A caller's organization key must be accepted by the cloud first, so that made-up
//     keys take no place.
//   - For a slot: in the cloud. The worker repeats the request with the same session id,
//     each time for at most slotPoll, so that proxies do not cut it off. It also repeats
//     it after a failure, because the place outlasts a replica of the cloud. It pauses
//     before that, and also if the cloud answers early, as a replica that stops does.
//
// A client that disconnects leaves the queue at once. Drain and Shutdown refuse the
// waiting launches.

const (
	queuePoll     = 200 * time.Millisecond // how often the first in the queue is checked
	slotPoll      = 25 * time.Second       // maximum duration of one request for a slot
	minRetryPause = 100 * time.Millisecond // before a request for a slot is repeated, without jitter
	maxRetryPause = 2 * time.Second
)

// DefaultMaxWaiting bounds the queue if Options.MaxWaiting is 0.
const DefaultMaxWaiting = 1000

var errOthersWait = fault.New(fault.Unavailable, "Other launches wait for this worker. Retry later or with waitSeconds.")

// queuedLaunch waits for capacity of this machine.
type queuedLaunch struct {
	launch   *pendingLaunch
	admitted chan error // receives nil, or why the launch is refused
}

// Waiting returns how many launches wait for this machine.
func (s *Service) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// enqueue adds a launch to the queue. The caller holds the lock.
func (s *Service) enqueue(e *pendingLaunch) (*queuedLaunch, error) {
	if n := len(s.queue); n >= s.MaxWaiting {
		return nil, fault.New(fault.Unavailable, "Too many launches wait for this worker.", fault.Detail{
			Field: "waitSeconds", Code: fault.Custom, Message: fmt.Sprintf("%d launches wait", n),
			Constraint: map[string]any{"current": n, "limit": s.MaxWaiting},
		})
	}
	q := &queuedLaunch{launch: e, admitted: make(chan error, 1)}
	s.queue = append(s.queue, q)
	s.scheduleAdmission()
	return q, nil
}

// scheduleAdmission checks the queue again later, as long as there is one. It does nothing
// if a check is scheduled. The caller holds the lock.
func (s *Service) scheduleAdmission() {
	if s.checkScheduled || len(s.queue) == 0 {
		return
	}
	s.checkScheduled = true
	time.AfterFunc(queuePoll, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checkScheduled = false
		s.admitWaiting()
		s.scheduleAdmission()
	})
}

// admitWaiting admits launches from the queue while there is capacity. The caller holds
// the lock.
func (s *Service) admitWaiting() {
	for len(s.queue) > 0 && s.checkAdmission() == nil {
		first := s.queue[0]
		s.queue = s.queue[1:]
		first.launch.count()
		first.admitted <- nil
	}
}

// refuseWaiting refuses all waiting launches. The caller holds the lock.
func (s *Service) refuseWaiting(err error) {
	for _, q := range s.queue {
		q.admitted <- err
	}
	s.queue = nil
	s.refuse()
}

// awaitAdmission waits until the launch is admitted.
func (s *Service) awaitAdmission(ctx context.Context, q *queuedLaunch, wait time.Duration) error {
	defer s.Metrics.beginWait()()
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case err := <-q.admitted:
		return err
	case <-over.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, q); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		switch err := s.checkAdmission(); {
		case ctx.Err() != nil:
			return launchCanceled(ctx.Err())
		case err != nil:
			return err
		}
		return errOthersWait
	}
	err := <-q.admitted // meanwhile
	if err == nil && ctx.Err() != nil {
		q.launch.uncount()
		return launchCanceled(ctx.Err())
	}
	return err
}

// awaitSlot requests a slot from the cloud until the launch has one or cannot wait longer.
func (s *Service) awaitSlot(ctx context.Context, request Request, authorization Authorization, until time.Time) (Grant, error) {
	defer s.Metrics.beginWait()()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.waitingAllowed(), stop)()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = minRetryPause, maxRetryPause
	for {
		sent := s.Clock.Now()
		authorization.Wait = max(until.Sub(sent), 0)
		authorization.Poll = min(authorization.Wait, slotPoll)
		grant, err := s.requestSlot(waiting, request, authorization)
		answered := s.Clock.Now()
		left := until.Sub(answered)
		switch {
		case err == nil:
			return grant, nil
		case waiting.Err() != nil && ctx.Err() == nil:
			return Grant{}, s.refusal()
		case grant.Queued && left > 0 && answered.Sub(sent) >= maxRetryPause: // the cloud waited
			pauses.Reset()
			continue
		case !grant.Queued && !fault.Is(err, fault.Unavailable) || errors.Is(err, errTooManyPending):
			return Grant{}, err
		}
		pause := max(pauses.NextBackOff(), fault.From(err).RetryAfter)
		if left <= pause {
			return Grant{}, err
		}
		select {
		case <-time.After(pause):
		case <-waiting.Done():
		}
	}
}

// waitingAllowed returns the context of waiting launches. It ends when they are refused.
func (s *Service) waitingAllowed() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// refusal returns why waiting launches are refused.
func (s *Service) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkOpen(); err != nil {
		return err
	}
	return errDraining // it was, and no longer is
}

// VerifyKey has the cloud verify a caller's organization key, unless it was accepted
// recently.
func (s *Service) VerifyKey(ctx context.Context, request Request) error {
	if s.keyLimiter.isAccepted(sha256.Sum256([]byte(request.OrganizationKey.Reveal()))) {
		return nil
	}
	_, err := s.keyLimiter.authorize(ctx, request, func() (Grant, error) {
		return Grant{}, s.License.VerifyKey(ctx, request.OrganizationKey)
	})
	return err
}
