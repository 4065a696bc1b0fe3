package license

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// What a launch needs besides a slot is checked once per batch, after all of its calls
// have arrived: the keys and the profiles' launch configurations.

// Keys receives the valid organization keys.
type Keys interface {
	// RecordUse records that launches used these valid keys. It does not block.
	RecordUse(ids []uuid.UUID)
}

// Profiles returns launch configurations.
type Profiles interface {
	// Prepare returns what launches of these profiles need.
	Prepare(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]Prepared, error)
}

// Prepared is the launch configuration of a profile, or the error that prevents a
// launch.
type Prepared struct {
	Config any
	Err    error
}

// withKey is a request with the key that has to be validated first, or Nil.
type withKey[Q any] struct {
	request Q
	key     uuid.UUID
}

// result is the answer to one request of a batch; err concerns that request only.
type result[A any] struct {
	value A
	err   error
}

// unwrap merges the error of the Combiner with that of the request.
func (t result[A]) unwrap(err error) (A, error) {
	if err == nil {
		err = t.err
	}
	return t.value, err
}

// goodKeysSQL selects the valid keys. lookupSQL contains it.
const goodKeysSQL = `SELECT id FROM api_keys WHERE id = ANY ($1) AND api_key_valid(revoked_at, expires_at, $2)`

// lookupChecked looks up the sessions of requests with valid keys.
func (s *Service) lookupChecked(ctx context.Context, orgID uuid.UUID, batch []withKey[uuid.UUID]) ([]result[slotState], error) {
	sessions, keys := make([]uuid.UUID, len(batch)), uncheckedKeys(batch)
	for i, each := range batch {
		sessions[i] = each.request
	}
	snap, err := s.lookupBatch(ctx, orgID, sessions, keys)
	if err != nil {
		return nil, err
	}
	if snap.usage != nil {
		s.fullCache.set(orgID, snap.usage.full())
	}
	bad, all := s.rejectedKeys(keys, snap.keys), make([]result[slotState], len(batch))
	for i, each := range batch {
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].value, all[i].err = snap.slotState(each.request)
		}
	}
	return all, nil
}

// takeChecked takes slots for requests with valid keys and launchable profiles.
func (s *Service) takeChecked(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest]) ([]result[takeResult], error) {
	bad, err := s.checkKeys(ctx, uncheckedKeys(batch))
	if err != nil {
		return nil, err
	}
	prepared, err := s.prepareProfiles(ctx, orgID, batch)
	if err != nil {
		return nil, err
	}
	validate := func(each withKey[slotRequest]) error {
		if err := bad[each.key]; err != nil {
			return err
		}
		return prepared.forRequest(each.request).Err
	}
	all, err := filter(batch, validate, func(calls []slotRequest) ([]takeResult, error) { return s.takeBatch(ctx, orgID, calls) })
	for i := range all {
		all[i].value.config = prepared.forRequest(batch[i].request).Config
	}
	return all, err
}

// preparedProfiles are the launch configurations of the profiles of a batch.
type preparedProfiles map[uuid.UUID]Prepared

func (p preparedProfiles) forRequest(w slotRequest) Prepared {
	if w.profileID == nil {
		return Prepared{}
	}
	return p[*w.profileID]
}

// filter runs the requests for which validate returns nil, and answers the others with
// that error.
func filter(batch []withKey[slotRequest], validate func(withKey[slotRequest]) error, do func([]slotRequest) ([]takeResult, error)) ([]result[takeResult], error) {
	all, calls := make([]result[takeResult], len(batch)), make([]slotRequest, 0, len(batch))
	for i, each := range batch {
		if all[i].err = validate(each); all[i].err == nil {
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

// uncheckedKeys returns the keys that a batch has to validate.
func uncheckedKeys[Q any](batch []withKey[Q]) []uuid.UUID {
	var keys []uuid.UUID
	for _, each := range batch {
		if each.key != uuid.Nil {
			keys = append(keys, each.key)
		}
	}
	return combine.Distinct(keys)
}

// checkKeys returns an error for each key that is not valid.
func (s *Service) checkKeys(ctx context.Context, keys []uuid.UUID) (map[uuid.UUID]error, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var good []uuid.UUID
	if err := s.batch.goodKeys.SelectContext(ctx, &good, uuidArray(keys), s.opts.Clock.Now()); err != nil {
		return nil, fmt.Errorf("validate keys: %w", err)
	}
	return s.rejectedKeys(keys, good), nil
}

// rejectedKeys returns an Unauthenticated error for each key that is not among the
// good ones.
func (s *Service) rejectedKeys(keys, good []uuid.UUID) map[uuid.UUID]error {
	if s.opts.Keys != nil && len(good) > 0 {
		s.opts.Keys.RecordUse(good)
	}
	bad := map[uuid.UUID]error{}
	for _, key := range without(keys, good) {
		bad[key] = fault.New(fault.Unauthenticated, "The organization key is invalid, revoked or expired.")
	}
	return bad
}

// prepareProfiles returns the launch configurations of the profiles of a batch.
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
