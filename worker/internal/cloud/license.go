package cloud

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// LicenseState is the outcome of the last call with the worker's own key, and
// so of a launch with that key.
type LicenseState string

// The states.
const (
	LicenseOK           LicenseState = "ok"
	LicenseUnreachable  LicenseState = "unreachable"  // no valid answer, or none yet
	LicenseKeyRefused   LicenseState = "key_refused"  // the worker's own key is invalid
	LicenseNoKey        LicenseState = "no_key"       // the cloud answers, but the worker has no key
	LicenseIncompatible LicenseState = "incompatible" // another major contract version
)

// licenseStatus records the outcomes of calls with the worker's own key. Calls
// with callers' keys are not recorded: the cloud may be slow for, or refuse,
// one organization only.
type licenseStatus struct {
	mu         sync.Mutex
	state      LicenseState
	acceptedAt time.Time // when the cloud last accepted the key
	fullAt     time.Time // when the cloud last said that all slots are in use; zero if a later answer had free slots
	onFailure  func()
}

// License returns the state that a launch with the worker's own key would meet.
func (c *Client) License() LicenseState {
	if c.Contract().Fit == FitIncompatible {
		return LicenseIncompatible
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.state
}

// LastAnswerAt returns when the cloud last accepted the worker's own key or,
// without such a key, last answered; the zero time if never.
func (c *Client) LastAnswerAt() time.Time {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.acceptedAt
}

// FullAt returns when the cloud said, in its last verdict about a launch with the worker's own
// key, that all slots of the organization are in use; the zero time if it did not.
func (c *Client) FullAt() time.Time {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.fullAt
}

// OnFailure sets a function that is called when a call other than a heartbeat
// finds that the cloud is no longer ok. It must be set before the client is
// used, and f must not block.
func (c *Client) OnFailure(f func()) { c.status.onFailure = f }

// Ping checks that the cloud is reachable, for a worker without a key. It
// returns a *fault.Error of kind Unavailable.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := c.callContext(ctx, "getCloudHealth", 0)
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
		return fault.New(fault.Unavailable, "The cloud is temporarily unavailable.")
	}
	return nil
}

// recordOutcome records the result of a call, unless the caller canceled the
// call.
func (c *Client) recordOutcome(ctx context.Context, k credential, err error, heartbeat bool) {
	if k.fromCaller || k.key.IsZero() || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	c.status.set(stateOf(err), !heartbeat)
}

// recordVerdict records whether the organization of the worker's own key has free slots. An
// error that is no verdict about them is ignored.
func (c *Client) recordVerdict(k credential, grant launch.Grant, err error) {
	if k.fromCaller || err != nil && !isFull(err) {
		return
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	c.status.fullAt = time.Time{}
	if err != nil || grant.Full {
		c.status.fullAt = time.Now().UTC()
	}
}

// isFull reports whether a launch was refused because no slot is free.
func isFull(err error) bool {
	return fault.Is(err, fault.PaymentRequired) && slices.ContainsFunc(fault.From(err).Details, func(d fault.Detail) bool {
		return d.Message == string(cloudapi.RefusalReasonConcurrencyLimit)
	})
}

// stateOf converts the result of a call. A refusal of the request itself counts
// as ok.
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

// set stores the state. It calls onFailure if the state got worse and verify is
// set.
func (s *licenseStatus) set(state LicenseState, verify bool) {
	s.mu.Lock()
	worse := s.state == LicenseOK && state != LicenseOK
	s.state = state
	if state == LicenseOK || state == LicenseNoKey {
		s.acceptedAt = time.Now().UTC()
	}
	s.mu.Unlock()
	if worse && verify && s.onFailure != nil {
		s.onFailure()
	}
}
