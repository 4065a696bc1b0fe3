package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

const (
	slotPoll      = 25 * time.Second       // maximum duration of one request for a slot
	minRetryPause = 100 * time.Millisecond // before a request for a slot is repeated, without jitter
	maxRetryPause = 2 * time.Second
)

// endWaitTimeout bounds how long a launch of an organization without free slots waits
// for sessions that are ending on this worker.
const endWaitTimeout = 5 * time.Second

// authorize gets a slot from the cloud, with the configuration of the profile. A launch that
// waits repeats the request. After an error the slot is released.
func (s *Service) authorize(ctx context.Context, a *attempt, build builds.Build) (grant Grant, err error) {
	s.active.Go(func() { a.host() }) // while the launch asks the cloud
	if a.usesWorkerKey() {           // check first: a wrong password must not use a slot
		if err := s.checkProxy(ctx, a.Override.Proxy, "proxyOverride."); err != nil {
			return Grant{}, err
		}
	}
	if a.id, err = uuid.NewV7(); err != nil {
		return Grant{}, fmt.Errorf("generate session id: %w", err)
	}
	grant, err = s.takeSlot(ctx, a, build)
	if err != nil {
		if mayHaveReserved(err) && a.ProfileID != nil && s.chargedKey(a.OrganizationKey).IsZero() {
			// The cloud may have reserved a slot although its answer was lost. The
			// reservation of a spec expires by itself, because the id of its profile is
			// unknown here. So does that of another key than the worker's own: otherwise
			// anyone who can reach the port could create any number of reports with
			// made-up keys.
			s.releaseSlot(a, *a.ProfileID)
		}
		return Grant{}, err
	}
	if a.ProfileID != nil && grant.Profile.ID == uuid.Nil { // the grant came without the configuration
		if grant.Profile, err = s.License.Profile(ctx, a.OrganizationKey, *a.ProfileID); err != nil {
			s.releaseSlot(a, *a.ProfileID)
			return Grant{}, err
		}
	}
	a.timeline.record(ctx, session.Authorized, s.Clock.Now())
	return grant, nil
}

// releaseSlot releases the slot of a launch that failed.
func (s *Service) releaseSlot(a *attempt, profileID uuid.UUID) {
	s.Reports.Ended(Ended{
		SessionID: a.id, ProfileID: profileID, Status: session.Killed, Reason: session.Unknown, At: s.Clock.Now(),
		OrganizationKey: a.OrganizationKey,
	})
}

// mayHaveReserved reports whether the cloud may have reserved a slot although no
// grant arrived.
func mayHaveReserved(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled)
}

// takeSlot requests a slot, and waits for it if the request allows.
func (s *Service) takeSlot(ctx context.Context, a *attempt, build builds.Build) (Grant, error) {
	authorization := Authorization{SessionID: a.id, ProfileID: a.ProfileID, OrganizationKey: a.OrganizationKey}
	if a.Spec != nil {
		authorization.Spec, authorization.BrowserVersion = a.Spec.Body, build.Major
	}
	if a.Wait <= 0 {
		return s.requestSlot(ctx, a, authorization)
	}
	grant, err := s.awaitSlot(ctx, a, authorization)
	s.recordWait(ctx, a, err == nil)
	return grant, err
}

// awaitSlot requests a slot until the launch has one or cannot wait longer. Each request
// takes at most slotPoll, so that proxies do not cut it off. It is also repeated after a
// failure, because the place in the cloud outlasts a replica, and after a pause if the cloud
// answers early, as a replica that stops does.
func (s *Service) awaitSlot(ctx context.Context, a *attempt, authorization Authorization) (Grant, error) {
	defer s.Metrics.beginWait()()
	refused := s.controller.Refused()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(refused, stop)()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = minRetryPause, maxRetryPause
	for {
		sent := s.Clock.Now()
		authorization.Wait = max(a.remaining(sent), 0)
		authorization.Poll = min(authorization.Wait, slotPoll)
		grant, err := s.requestSlot(waiting, a, authorization)
		answered := s.Clock.Now()
		left := a.remaining(answered)
		switch {
		case err == nil:
			return grant, nil
		case ctx.Err() != nil: // the client has left
			return Grant{}, context.Cause(ctx)
		case waiting.Err() != nil:
			return Grant{}, context.Cause(refused)
		case grant.Queued && left > 0 && answered.Sub(sent) >= maxRetryPause: // the cloud waited
			pauses.Reset()
			continue
		case !grant.Queued && !fault.Is(err, fault.Unavailable) || errors.Is(err, admission.ErrTooManyPending):
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

// requestSlot requests a slot once. Requests with a caller's key are limited.
func (s *Service) requestSlot(ctx context.Context, a *attempt, authorization Authorization) (grant Grant, err error) {
	if a.usesWorkerKey() {
		return s.reserve(ctx, authorization)
	}
	err = s.keys.Do(ctx, a.OrganizationKey, a.Client, func() error {
		grant, err = s.reserve(ctx, authorization)
		return err
	})
	return grant, err
}

// reserve requests a slot from the cloud. The request carries the ends that the
// cloud has not acknowledged, so that a session already reported as ended to a
// client does not occupy the slot of its next launch. If the organization has no
// free slot and the launch does not wait, reserve waits up to endWaitTimeout for
// sessions of the same key that are ending on this worker, and retries.
func (s *Service) reserve(ctx context.Context, authorization Authorization) (Grant, error) {
	key := s.chargedKey(authorization.OrganizationKey)
	waitCtx, cancel := context.WithTimeout(ctx, endWaitTimeout)
	defer cancel()
	if s.fullKeys.recentlyFull(key) && authorization.Wait == 0 {
		awaitEnds(waitCtx, s.sessionsOf(key))
	}
	for {
		sessions := s.sessionsOf(key) // one may end while the cloud decides
		authorization.Ends = s.Reports.Unacknowledged(key)
		grant, err := s.License.Authorize(ctx, authorization)
		refused := fault.Is(err, fault.PaymentRequired)
		if err == nil || refused {
			s.Reports.Carried(authorization.Ends)
			s.fullKeys.set(key, refused || grant.Full)
		}
		if !refused || grant.Queued || !s.shouldRetry(waitCtx, key, sessions) {
			return grant, err
		}
	}
}

// shouldRetry reports whether a retry can succeed after a refusal: one of the sessions that
// were running before has ended, or a pending end report was delivered.
func (s *Service) shouldRetry(ctx context.Context, key session.OrganizationKey, sessions []*running) bool {
	ended := awaitEnds(ctx, sessions)
	delivered := s.Reports.Deliver(ctx, key)
	return ctx.Err() == nil && (ended || delivered || len(s.Reports.Unacknowledged(key)) > 0)
}

// awaitEnds waits for those of these sessions that are ending, until ctx ends. It reports
// whether one of them has ended.
func awaitEnds(ctx context.Context, sessions []*running) (ended bool) {
	for _, run := range sessions {
		ended = run.isEnding() && run.awaitEnd(ctx) || ended
	}
	return ended
}

// sessionsOf returns the sessions that are charged to a key, except those whose end is
// reported.
func (s *Service) sessionsOf(key session.OrganizationKey) (found []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.live {
		if s.chargedKey(run.session.OrganizationKey).Equal(key) {
			found = append(found, run)
		}
	}
	return found
}

// chargedKey returns the key that a launch is charged to. It is zero for the
// worker's own key, even if a caller sent that key.
func (s *Service) chargedKey(key session.OrganizationKey) session.OrganizationKey {
	if key.Equal(s.Key) {
		return session.OrganizationKey{}
	}
	return key
}
