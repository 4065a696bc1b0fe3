package license

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// carriedEnds are the ends that an authorize request carries: sessions of its machine
// that have ended but are not acknowledged yet. They are applied before the launch is
// decided, so that the launch can use their slots and profiles.
type carriedEnds struct {
	machineID string
	ends      []EndReport
}

// carriedSlotsSQL finds the sessions that hold a slot of the machine that reports
// their end.
const carriedSlotsSQL = `
SELECT s.session_id, s.machine_id FROM unnest($2::uuid[], $3::text[]) AS w (session_id, machine_id)
CROSS JOIN LATERAL (SELECT s.session_id, s.machine_id FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = w.session_id
	AND s.machine_id = w.machine_id AND s.released_at IS NULL LIMIT 1) s`

// applyCarriedEnds applies the ends that the request carries. Ends of sessions that
// hold no slot of its machine are skipped; their own reports follow. After an error
// some may be applied; each is idempotent.
func (s *Service) applyCarriedEnds(ctx context.Context, req *Request) error {
	if len(req.Ends) == 0 {
		return nil
	}
	answer, err := s.carriedEnds.Do(ctx, req.OrgID, withKey[carriedEnds]{carriedEnds{req.MachineID, req.Ends}, req.pendingKey()})
	live, err := answer.unwrap(err)
	if err != nil {
		return err
	}
	req.KeyPending = false // the key was verified with the ends
	errs := make([]error, len(live))
	var under sync.WaitGroup
	for i, end := range live {
		under.Go(func() { _, errs[i] = s.End(ctx, end) })
	}
	under.Wait()
	for i, err := range errs {
		if fault.Is(err, fault.NotFound) { // the session belongs to another profile, which does not affect the launch
			errs[i] = nil
		}
	}
	if len(live) > 0 {
		s.fullCache.set(req.OrgID, false)
	}
	return errors.Join(errs...)
}

// findCarriedSlots returns, for each authorize of a batch, those of its carried ends
// whose sessions hold a slot of its machine.
func (s *Service) findCarriedSlots(ctx context.Context, orgID uuid.UUID, batch []withKey[carriedEnds]) ([]result[[]EndReport], error) {
	bad, err := s.verifyKeys(ctx, pendingKeys(batch))
	if err != nil {
		return nil, err
	}
	var sessions []uuid.UUID
	var machines []string
	for _, each := range batch {
		for _, end := range each.request.ends {
			sessions, machines = append(sessions, end.SessionID), append(machines, each.request.machineID)
		}
	}
	var found []slotHolder
	err = s.batch.carriedSlots.SelectContext(ctx, &found, orgID, uuidArray(sessions),
		binaryArray(textElement, machines, func(raw []byte, name string) []byte { return appendText(raw, name) }))
	if err != nil {
		return nil, fmt.Errorf("find the sessions of carried ends: %w", err)
	}
	holds := make(map[slotHolder]bool, len(found))
	for _, one := range found {
		holds[one] = true
	}
	all := make([]result[[]EndReport], len(batch))
	for i, each := range batch {
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].value = each.request.ofHeldSlots(holds)
		}
	}
	return all, nil
}

// slotHolder is a session that holds a slot, and its machine. Requests of other
// machines in the same batch may carry an end of the same session.
type slotHolder struct {
	SessionID uuid.UUID `db:"session_id"`
	MachineID string    `db:"machine_id"`
}

// ofHeldSlots returns the first end of each session that holds a slot of the machine.
func (c carriedEnds) ofHeldSlots(holds map[slotHolder]bool) []EndReport {
	var ends []EndReport
	seen := map[uuid.UUID]bool{}
	for _, end := range c.ends {
		if holds[slotHolder{end.SessionID, c.machineID}] && !seen[end.SessionID] {
			seen[end.SessionID] = true
			ends = append(ends, end)
		}
	}
	return ends
}
