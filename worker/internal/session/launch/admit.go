package launch

import (
	"context"

	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

// admit gets a place on this machine for a launch. A launch waits only with a verified key,
// so that made-up keys take no place in the queue. A launch with a caller's key that does not
// wait counts only after the cloud has authorized it. A launch gets a place before it asks
// for a slot, so that it never holds a slot of its organization while it waits.
func (s *Service) admit(ctx context.Context, a *attempt) (err error) {
	verified := a.usesWorkerKey()
	if a.Wait > 0 && !verified {
		if err := s.VerifyKey(ctx, a.Request); err != nil {
			return err
		}
		verified = true
	}
	if a.place, err = s.controller.Enter(ctx, a.remaining(s.Clock.Now()), verified); err != nil {
		a.full = true
		s.recordWait(ctx, a, false)
	}
	if a.Wait > 0 {
		a.host = s.hostReader(ctx) // it may have changed during the wait
	}
	return err
}

// recordWait reports the end of the wait of a launch that could wait.
func (s *Service) recordWait(ctx context.Context, a *attempt, granted bool) {
	if a.Wait > 0 {
		s.Waited(ctx, s.Clock.Now().Sub(a.received), granted)
	}
}

// VerifyKey has the cloud verify a caller's organization key, unless it was accepted
// recently.
func (s *Service) VerifyKey(ctx context.Context, request Request) error {
	if s.keys.Accepted(request.OrganizationKey) {
		return nil
	}
	return s.keys.Do(ctx, request.OrganizationKey, request.Client, func() error {
		return s.License.VerifyKey(ctx, request.OrganizationKey)
	})
}

// Counts returns the numbers of running browsers and of launches in progress.
func (s *Service) Counts() (running, launching int) { return s.controller.Counts() }

// Waiting returns how many launches wait for this machine.
func (s *Service) Waiting() int { return s.controller.Waiting() }

// Draining reports whether new launches are refused because of Drain, Retire or
// Shutdown.
func (s *Service) Draining() bool { return s.controller.Draining() }

// Drain refuses new launches. Sessions and launches in progress continue.
func (s *Service) Drain() { s.changeDraining(func(c *admission.Controller) { c.SetDraining(true) }) }

// Resume accepts launches again after Drain.
func (s *Service) Resume() { s.changeDraining(func(c *admission.Controller) { c.SetDraining(false) }) }

// Retire is a Drain that Resume does not undo. The worker calls it before it stops.
func (s *Service) Retire() { s.changeDraining((*admission.Controller).Retire) }

func (s *Service) changeDraining(change func(*admission.Controller)) {
	s.switchDraining(change)
	if s.DrainChanged != nil {
		s.DrainChanged()
	}
}

func (s *Service) switchDraining(change func(*admission.Controller)) {
	s.drainOrder.Lock()
	defer s.drainOrder.Unlock()
	change(s.controller)
	switch {
	case s.Warm == nil:
	case s.controller.Draining():
		s.Warm.Drain()
	default:
		s.Warm.Resume()
	}
}
