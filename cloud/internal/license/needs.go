package license

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// What a launch needs besides a slot is asked by the batch that it is in, for all
// of them at once, and so after each of them came.

// Keys hears of the organization keys.
type Keys interface {
	// Used is told of keys that a launch showed and that are good. It does not block.
	Used(ids []uuid.UUID)
}

// Profiles knows what profiles are launched with.
type Profiles interface {
	// Prepare returns what launches of the organization's profiles need.
	Prepare(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]Prepared, error)
}

// Prepared is what a launch of a profile needs, or why there can be none.
type Prepared struct {
	Config any
	Err    error
}

// keyed is a call, and the key that has to be checked before it is done; Nil is
// none.
type keyed[Q any] struct {
	call Q
	key  uuid.UUID
}

// told is the answer to a call; err is of that one alone.
type told[A any] struct {
	answer A
	err    error
}

// result makes what a combiner returns an answer.
func (t told[A]) result(err error) (A, error) {
	if err == nil {
		err = t.err
	}
	return t.answer, err
}

// goodKeysSQL are those of the keys that are good, which lookSQL asks as well.
const goodKeysSQL = `SELECT id FROM api_keys WHERE id = ANY ($1) AND api_key_good(revoked_at, expires_at, $2)`

// lookChecked looks for those whose keys are good.
func (s *Service) lookChecked(ctx context.Context, orgID uuid.UUID, batch []keyed[uuid.UUID]) ([]told[sight], error) {
	sessions, keys := make([]uuid.UUID, len(batch)), keysOf(batch)
	for i, each := range batch {
		sessions[i] = each.call
	}
	seen, err := s.lookAll(ctx, orgID, sessions, keys)
	if err != nil {
		return nil, err
	}
	if seen.usage != nil {
		s.full.is(orgID, seen.usage.full())
	}
	bad, all := s.badKeys(keys, seen.keys), make([]told[sight], len(batch))
	for i, each := range batch {
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].answer, all[i].err = seen.of(each.call)
		}
	}
	return all, nil
}

// takeChecked takes slots for those whose keys are good, and whose profiles can
// be launched.
func (s *Service) takeChecked(ctx context.Context, orgID uuid.UUID, batch []keyed[want]) ([]told[granted], error) {
	bad, err := s.checkKeys(ctx, keysOf(batch))
	if err != nil {
		return nil, err
	}
	prepared, err := s.prepare(ctx, orgID, batch)
	if err != nil {
		return nil, err
	}
	wrong := func(each keyed[want]) error {
		if err := bad[each.key]; err != nil {
			return err
		}
		return prepared.of(each.call).Err
	}
	all, err := sift(batch, wrong, func(calls []want) ([]granted, error) { return s.takeAll(ctx, orgID, calls) })
	for i := range all {
		all[i].answer.config = prepared.of(batch[i].call).Config
	}
	return all, err
}

// profiles are those of a batch, with what they are launched with.
type profiles map[uuid.UUID]Prepared

func (p profiles) of(w want) Prepared {
	if w.profileID == nil {
		return Prepared{}
	}
	return p[*w.profileID]
}

// sift does the calls of a batch that nothing is wrong with, and answers the
// others with what is.
func sift(batch []keyed[want], wrong func(keyed[want]) error, do func([]want) ([]granted, error)) ([]told[granted], error) {
	all, calls := make([]told[granted], len(batch)), make([]want, 0, len(batch))
	for i, each := range batch {
		if all[i].err = wrong(each); all[i].err == nil {
			calls = append(calls, each.call)
		}
	}
	if len(calls) == 0 {
		return all, nil
	}
	answers, err := do(calls)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].err == nil {
			all[i].answer, answers = answers[0], answers[1:]
		}
	}
	return all, nil
}

// keysOf are the keys that a batch has to check.
func keysOf[Q any](batch []keyed[Q]) []uuid.UUID {
	var keys []uuid.UUID
	for _, each := range batch {
		if each.key != uuid.Nil {
			keys = append(keys, each.key)
		}
	}
	return combine.Distinct(keys)
}

// checkKeys finds those of the keys that are not good.
func (s *Service) checkKeys(ctx context.Context, keys []uuid.UUID) (map[uuid.UUID]error, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var good []uuid.UUID
	if err := s.together.goodKeys.SelectContext(ctx, &good, uuidArray(keys), s.opts.Clock.Now()); err != nil {
		return nil, fmt.Errorf("check the keys: %w", err)
	}
	return s.badKeys(keys, good), nil
}

// badKeys are the keys that are not good, each with the answer to who shows it.
func (s *Service) badKeys(keys, good []uuid.UUID) map[uuid.UUID]error {
	if s.opts.Keys != nil && len(good) > 0 {
		s.opts.Keys.Used(good)
	}
	bad := map[uuid.UUID]error{}
	for _, key := range without(keys, good) {
		bad[key] = fault.New(fault.Unauthenticated, "The organization key is wrong, revoked or expired.")
	}
	return bad
}

// prepare is what the profiles of a batch are launched with.
func (s *Service) prepare(ctx context.Context, orgID uuid.UUID, batch []keyed[want]) (profiles, error) {
	var asked []uuid.UUID
	for _, each := range batch {
		if each.call.profileID != nil {
			asked = append(asked, *each.call.profileID)
		}
	}
	if len(asked) == 0 || s.opts.Profiles == nil {
		return nil, nil
	}
	return s.opts.Profiles.Prepare(ctx, orgID, combine.Distinct(asked))
}
