package cloud

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// LicenseState is what the cloud last said to this worker, and with it what a
// launch with the worker's own key would meet.
type LicenseState string

// The states.
const (
	LicenseOK           LicenseState = "ok"
	LicenseUnreachable  LicenseState = "unreachable"  // no proper answer, or none yet
	LicenseKeyRefused   LicenseState = "key_refused"  // the worker's own key is
	LicenseNoKey        LicenseState = "no_key"       // the cloud answers, but the worker has no key
	LicenseIncompatible LicenseState = "incompatible" // the cloud keeps another major version of the contract
)

// licenseStatus is what the calls with the worker's own key have shown. Calls with
// callers' keys show nothing: the cloud may be slow about one organization, or
// refuse one, and answer the others.
type licenseStatus struct {
	mu        sync.Mutex
	state     LicenseState
	at        time.Time // when the cloud last accepted the key
	onFailure func()
}

// License is what a launch with the worker's own key would meet.
func (c *Client) License() LicenseState {
	if c.Contract().Fit == FitIncompatible {
		return LicenseIncompatible
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.state
}

// LastAnswerAt is when the cloud last answered properly and accepted the
// worker's own key, or, for a worker without one, last answered; the zero time
// for never.
func (c *Client) LastAnswerAt() time.Time {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.at
}

// OnFailure has f called when a call other than a heartbeat meets a cloud that was
// ok and is not any more. It must be called before the client is used, and f
// must not block.
func (c *Client) OnFailure(f func()) { c.status.onFailure = f }

// Ping asks the cloud whether it is there, for a worker that has no key to ask
// anything else with. Its error is a *fault.Error of kind Unavailable.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.ping(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if err != nil {
		c.status.set(stateOf(err), false)
	} else {
		c.status.set(LicenseNoKey, false)
	}
	return err
}

func (c *Client) ping(ctx context.Context) error {
	answer, err := c.api.GetCloudHealth(ctx)
	if err != nil {
		return callFault(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= http.StatusInternalServerError {
		return fault.New(fault.Unavailable, "The cloud cannot answer right now.")
	}
	return nil
}

// recordOutcome takes in how a call went. Who gave it up has learnt nothing.
func (c *Client) recordOutcome(ctx context.Context, k credential, err error, heartbeat bool) {
	if k.fromCaller || k.key.IsZero() || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	c.status.set(stateOf(err), !heartbeat)
}

// stateOf is what the outcome of a call with the worker's own key says. A
// refusal of what was asked for is an answer like any other.
func stateOf(err error) LicenseState {
	_, incompatible := errors.AsType[*incompatibleError](err)
	switch {
	case incompatible:
		return LicenseIncompatible
	case fault.Is(err, fault.OwnKeyRefused):
		return LicenseKeyRefused
	case fault.Is(err, fault.Unavailable):
		return LicenseUnreachable
	default:
		return LicenseOK
	}
}

// set keeps the state. When it got worse and verify is set, it is doubted.
func (s *licenseStatus) set(state LicenseState, verify bool) {
	s.mu.Lock()
	worse := s.state == LicenseOK && state != LicenseOK
	s.state = state
	if state == LicenseOK || state == LicenseNoKey {
		s.at = time.Now().UTC()
	}
	s.mu.Unlock()
	if worse && verify && s.onFailure != nil {
		s.onFailure()
	}
}
