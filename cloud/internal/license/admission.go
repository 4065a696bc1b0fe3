package license

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// Kind a launch needs besides a slot is asked by the batch that it is in, for all
// of them at once, and so after each of them came.

// Keys hears of the organization keys.
type Keys interface {
	// RecordUse is told of keys that a launch showed and that are good. It does not block.
	RecordUse(ids []uuid.UUID)
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

// withKey is a call, and the key that has to be checked before it is done; Nil is
// none.
type withKey[Q any] struct {
	request Q
	key     uuid.UUID
}

// unwrap is the answer to a call; err is of that one alone.
type result[A any] struct {
	value A
	err   error
}

// unwrap makes what a combiner returns an answer.
func (t result[A]) unwrap(err error) (A, error) {
	if err == nil {
		err = t.err
	}
	return t.value, err
}

// goodKeysSQL are those of the keys that are good, which lookupSQL asks as well.
const goodKeysSQL = `SELECT id FROM api_keys WHERE id = ANY ($1) AND api_key_valid(revoked_at, expires_at, $2)`

// lookupChecked looks for those whose keys are good.
func (s *Service) lookupChecked(ctx context.Context, orgID uuid.UUID, batch []withKey[uuid.UUID]) ([]result[slotState], error) {
	sessions, keys := make([]uuid.UUID, len(batch)), uncheckedKeys(batch)
	for i, each := range batch {
		sessions[i] = each.request
	}
	seen, err := s.lookupBatch(ctx, orgID, sessions, keys)
	if err != nil {
		return nil, err
	}
	if seen.usage != nil {
		s.fullCache.set(orgID, seen.usage.full())
	}
	bad, all := s.rejectedKeys(keys, seen.keys), make([]result[slotState], len(batch))
	for i, each := range batch {
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].value, all[i].err = seen.slotState(each.request)
		}
	}
	return all, nil
}

// takeChecked takes slots for those whose keys are good, and whose profiles can
// be launched.
func (s *Service) takeChecked(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest]) ([]result[takeResult], error) {
	bad, err := s.checkKeys(ctx, uncheckedKeys(batch))
	if err != nil {
		return nil, err
	}
	prepared, err := s.prepareProfiles(ctx, orgID, batch)
	if err != nil {
		return nil, err
	}
	wrong := func(each withKey[slotRequest]) error {
		if err := bad[each.key]; err != nil {
			return err
		}
		return prepared.forRequest(each.request).Err
	}
	all, err := filter(batch, wrong, func(calls []slotRequest) ([]takeResult, error) { return s.takeBatch(ctx, orgID, calls) })
	for i := range all {
		all[i].value.config = prepared.forRequest(batch[i].request).Config
	}
	return all, err
}

// preparedProfiles are those of a batch, with what they are launched with.
type preparedProfiles map[uuid.UUID]Prepared

func (p preparedProfiles) forRequest(w slotRequest) Prepared {
	if w.profileID == nil {
		return Prepared{}
	}
	return p[*w.profileID]
}

// filter does the calls of a batch that nothing is wrong with, and answers the
// others with what is.
func filter(batch []withKey[slotRequest], wrong func(withKey[slotRequest]) error, do func([]slotRequest) ([]takeResult, error)) ([]result[takeResult], error) {
	all, calls := make([]result[takeResult], len(batch)), make([]slotRequest, 0, len(batch))
	for i, each := range batch {
		if all[i].err = wrong(each); all[i].err == nil {
			calls = append(calls, each.request)
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
			all[i].value, answers = answers[0], answers[1:]
		}
	}
	return all, nil
}

// uncheckedKeys are the keys that a batch has to check.
func uncheckedKeys[Q any](batch []withKey[Q]) []uuid.UUID {
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
	if err := s.batch.goodKeys.SelectContext(ctx, &good, uuidArray(keys), s.opts.Clock.Now()); err != nil {
		return nil, fmt.Errorf("check the keys: %w", err)
	}
	return s.rejectedKeys(keys, good), nil
}

// rejectedKeys are the keys that are not good, each with the answer to who shows it.
func (s *Service) rejectedKeys(keys, good []uuid.UUID) map[uuid.UUID]error {
	if s.opts.Keys != nil && len(good) > 0 {
		s.opts.Keys.RecordUse(good)
	}
	bad := map[uuid.UUID]error{}
	for _, key := range without(keys, good) {
		bad[key] = fault.New(fault.Unauthenticated, "The organization key is wrong, revoked or expired.")
	}
	return bad
}

// prepareProfiles is what the profiles of a batch are launched with.
func (s *Service) prepareProfiles(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest]) (preparedProfiles, error) {
	var asked []uuid.UUID
	for _, each := range batch {
		if each.request.profileID != nil {
			asked = append(asked, *each.request.profileID)
		}
	}
	if len(asked) == 0 || s.opts.Profiles == nil {
		return nil, nil
	}
	return s.opts.Profiles.Prepare(ctx, orgID, combine.Distinct(asked))
}
