package launch

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// Limits bound how long a session runs. 0 is no limit.
type Limits struct {
	Idle    time.Duration // without client activity
	Max     time.Duration // since the start
	Connect time.Duration // from the start to the first use by a client
}

// LimitChanges are values for Limits; nil keeps the limit.
type LimitChanges struct{ Idle, Max, Connect *time.Duration }

// LimitRules are the operator's rules for the limits of sessions.
type LimitRules struct {
	Default Limits // of a launch whose request and profile have none
	Highest Limits // that requests and profiles can set; 0: any, also none
}

// limits returns the limits of a launch. Those of the request and the profile are merged
// in settings.
func (s *Service) limits(request Request, settings Settings) Limits {
	limits := s.LimitRules.Default
	limits.Idle = cmp.Or(request.DefaultIdle, limits.Idle)
	return settings.limits().apply(limits)
}

// apply returns the limits with the changes.
func (c LimitChanges) apply(limits Limits) Limits {
	if c.Idle != nil {
		limits.Idle = *c.Idle
	}
	if c.Max != nil {
		limits.Max = *c.Max
	}
	if c.Connect != nil {
		limits.Connect = *c.Connect
	}
	return limits
}

// check refuses values above the highest. where says where else a value can come from.
func (c LimitChanges) check(highest Limits, prefix, where string) (details []fault.Detail) {
	for _, limit := range []struct {
		field   string
		value   *time.Duration
		highest time.Duration
		setting string
	}{
		{"idleTimeoutSeconds", c.Idle, highest.Idle, "IDLE_TIMEOUT"},
		{"maxDurationSeconds", c.Max, highest.Max, "MAX_DURATION"},
	} {
		if limit.highest == 0 || limit.value == nil || *limit.value > 0 && *limit.value <= limit.highest {
			continue
		}
		code, most := fault.TooBig, int64(limit.highest/time.Second)
		if *limit.value == 0 {
			code = fault.TooSmall
		}
		details = append(details, fault.Detail{
			Field: prefix + limit.field, Code: code, Received: int64(*limit.value / time.Second),
			Message:    fmt.Sprintf("must be from 1 to %d%s: this worker has a limit (%s)", most, where, limit.setting),
			Constraint: map[string]any{"min": 1, "max": most},
		})
	}
	return details
}

// Lifetime decides when a session ends by itself. It is safe for concurrent use. The nil
// Lifetime is that of a session without limits.
type Lifetime struct {
	clock    clock.Clock
	activity *activity.Meter
	start    time.Time
	wake     chan struct{} // after a change

	// warn is called warnTime before the session ends by itself, once for each end. It
	// must not block. Nil: no call. It is set before await.
	warn func(end time.Time, reason session.EndReason)

	mu        sync.Mutex
	limits    Limits
	restart   time.Time // of the idle time, other than by activity
	warnedEnd time.Time // the end that warn was called with
	ended     bool
}

func newLifetime(clock clock.Clock, activity *activity.Meter, limits Limits) *Lifetime {
	return &Lifetime{clock: clock, activity: activity, start: clock.Now(), limits: limits, wake: make(chan struct{}, 1)}
}

// Limits returns the limits that apply.
func (l *Lifetime) Limits() Limits {
	if l == nil {
		return Limits{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

// Expiry returns when the session ends if it is neither used nor extended, and why; the
// zero time if it does not end by itself.
func (l *Lifetime) Expiry() (end time.Time, reason session.EndReason) {
	if l == nil {
		return time.Time{}, ""
	}
	used, idleStart := l.activity.Used(), l.activity.Last()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiry(used, idleStart)
}

// expiry is Expiry for a caller that holds the lock. used and idleStart are from the meter,
// which asks the kernel.
func (l *Lifetime) expiry(used bool, idleStart time.Time) (end time.Time, reason session.EndReason) {
	consider := func(start time.Time, limit time.Duration, candidate session.EndReason) {
		if limitEnd := start.Add(limit); limit > 0 && (end.IsZero() || limitEnd.Before(end)) {
			end, reason = limitEnd, candidate
		}
	}
	if !used {
		consider(l.start, l.limits.Connect, session.NeverConnected)
	}
	consider(l.start, l.limits.Max, session.MaxDuration)
	if l.restart.After(idleStart) {
		idleStart = l.restart
	}
	consider(idleStart, l.limits.Idle, session.Idle)
	return end, reason
}

// change changes the limits. A new idle timeout restarts the idle time. Errors: Conflict
// after the end, Validation for a limit that the session has reached.
func (l *Lifetime) change(changes LimitChanges) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errEnded
	}
	now := l.clock.Now()
	if details := changes.checkReached(now.Sub(l.start)); len(details) > 0 {
		return fault.Invalid(details...)
	}
	if changes.Idle != nil {
		l.restart = now
	}
	l.limits = changes.apply(l.limits)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return nil
}

// checkReached refuses limits that a session of this age has reached.
func (c LimitChanges) checkReached(age time.Duration) (details []fault.Detail) {
	for _, limit := range []struct {
		field string
		value *time.Duration
	}{{"maxDurationSeconds", c.Max}, {"connectTimeoutSeconds", c.Connect}} {
		if limit.value == nil || *limit.value == 0 || *limit.value > age {
			continue
		}
		least := int64(age/time.Second) + 1
		details = append(details, fault.Detail{
			Field: limit.field, Code: fault.TooSmall, Received: int64(*limit.value / time.Second),
			Message:    fmt.Sprintf("must be at least %d, because the session has run that long; DELETE ends it", least),
			Constraint: map[string]any{"min": least},
		})
	}
	return details
}

// await waits until the session expires, an end is requested or the browser has ended. It
// returns why the worker ends the session; "" if its browser has ended.
func (l *Lifetime) await(browserEnded <-chan struct{}, requests <-chan session.EndReason) (reason session.EndReason) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		reason, next, warning := l.expire()
		if reason != "" {
			return reason
		}
		if warning != nil {
			warning()
		}
		var due <-chan time.Time
		if next > 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-browserEnded:
			l.end()
			return ""
		case reason := <-requests:
			l.end()
			return reason
		case <-l.wake:
		case <-due:
		}
	}
}

// Limits of the polling interval for idle sessions.
const (
	minIdlePoll = 50 * time.Millisecond
	maxIdlePoll = 10 * time.Second
)

// expire ends the lifetime if it is time, and returns why. Otherwise it returns the time to
// the next check; 0 if there is no limit. The meter is only as precise as its polling interval, so an
// idle timeout is checked ten times, at least every ten seconds. warning is the call of warn, if it is due.
func (l *Lifetime) expire() (ended session.EndReason, next time.Duration, warning func()) {
	used, idleStart := l.activity.Used(), l.activity.Last()
	l.mu.Lock()
	defer l.mu.Unlock()
	end, reason := l.expiry(used, idleStart)
	if end.IsZero() {
		return "", 0, nil
	}
	if next = end.Sub(l.clock.Now()); next <= 0 {
		l.ended = true
		return reason, 0, nil
	}
	if next > warnTime {
		next -= warnTime
	} else if l.warn != nil && l.limits.warns(reason) && end.Sub(l.warnedEnd).Abs() > time.Second {
		l.warnedEnd, warning = end, func() { l.warn(end, reason) }
	}
	if l.limits.Idle > 0 {
		next = min(next, min(max(l.limits.Idle/10, minIdlePoll), maxIdlePoll))
	}
	return "", next, warning
}

// warnTime is how long before the end warn is called, for limits that are longer.
const warnTime = time.Minute

// warns reports whether the limit of a reason is long enough for a warning. A client that pauses again and again gets at most
// one a minute.
func (l Limits) warns(reason session.EndReason) bool {
	if reason == session.Idle {
		return l.Idle >= 2*warnTime
	}
	return map[session.EndReason]time.Duration{session.MaxDuration: l.Max, session.NeverConnected: l.Connect}[reason] > warnTime
}

// end refuses later changes.
func (l *Lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
