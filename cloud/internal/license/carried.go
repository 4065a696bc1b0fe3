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

// carriedSlotsSQL returns the positions of the ends whose session holds a slot of the
// machine that reports the end.
const carriedSlotsSQL = `
SELECT w.n FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS w (session_id, machine_id, n)
CROSS JOIN LATERAL (SELECT FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = w.session_id
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
	var found []int // from 1
	err = s.batch.carriedSlots.SelectContext(ctx, &found, orgID, uuidArray(sessions),
		binaryArray(textElement, machines, func(raw []byte, name string) []byte { return appendText(raw, name) }))
	if err != nil {
		return nil, fmt.Errorf("find the sessions of carried ends: %w", err)
	}
	holdsSlot := make([]bool, len(sessions))
	for _, n := range found {
		holdsSlot[n-1] = true
	}
	all := make([]result[[]EndReport], len(batch))
	for i, each := range batch {
		ends := each.request.ends
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].value = firstOfEachSession(ends, holdsSlot)
		}
		holdsSlot = holdsSlot[len(ends):]
	}
	return all, nil
}

// firstOfEachSession returns the first end of each session that holds a slot.
// holdsSlot has an element for each end.
func firstOfEachSession(ends []EndReport, holdsSlot []bool) []EndReport {
	var first []EndReport
	visited := map[uuid.UUID]bool{}
	for i, end := range ends {
		if holdsSlot[i] && !visited[end.SessionID] {
			visited[end.SessionID] = true
			first = append(first, end)
		}
	}
	return first
}
