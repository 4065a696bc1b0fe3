package license

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// The other requirements of a launch, the keys and the launch configurations of profiles,
// are checked once per batch, after all of its calls have arrived.

// Keys verifies the pending organization keys of launches, as part of the statements
// of this package.
type Keys interface {
	// ValidSQL returns the query for the ids of the valid keys among $1, at the time $2.
	ValidSQL() string
	// Reject records the use of the valid keys, and returns an Unauthenticated error for
	// each other key. It does not block.
	Reject(keys, valid []uuid.UUID) map[uuid.UUID]error
}

// noKeys is the default Keys, for a Service without pending keys. It rejects all keys.
type noKeys struct{}

func (noKeys) ValidSQL() string {
	return `SELECT id FROM unnest($1::uuid[]) AS k (id) WHERE $2::timestamptz IS NULL`
}

func (noKeys) Reject(keys, _ []uuid.UUID) map[uuid.UUID]error {
	rejected := make(map[uuid.UUID]error, len(keys))
	for _, key := range keys {
		rejected[key] = fault.New(fault.Unauthenticated, "This service does not accept organization keys.")
	}
	return rejected
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

// withKey is a request with its pending key, or Nil.
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

// lookupChecked looks up the sessions of requests with valid keys.
func (s *Service) lookupChecked(ctx context.Context, orgID uuid.UUID, batch []withKey[uuid.UUID]) ([]result[slotState], error) {
	sessions, keys := make([]uuid.UUID, len(batch)), pendingKeys(batch)
	for i, each := range batch {
		sessions[i] = each.request
	}
	snap, err := s.lookupBatch(ctx, orgID, sessions, keys)
	if err != nil {
		return nil, err
	}
	if snap.usage != nil {
		s.fullCache.set(orgID, snap.usage.reserved())
	}
	bad, all := s.opts.Keys.Reject(keys, snap.keys), make([]result[slotState], len(batch))
	for i, each := range batch {
		if all[i].err = bad[each.key]; all[i].err == nil {
			all[i].value, all[i].err = snap.slotState(each.request)
		}
	}
	return all, nil
}

// takeFunc takes slots for a batch of one organization.
type takeFunc func(ctx context.Context, orgID uuid.UUID, wants []slotRequest) ([]takeResult, error)

// takeChecked returns a function that takes slots for requests with valid keys and
// launchable profiles.
func (s *Service) takeChecked(take takeFunc) func(context.Context, uuid.UUID, []withKey[slotRequest]) ([]result[takeResult], error) {
	return func(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest]) ([]result[takeResult], error) {
		return s.checkAndTake(ctx, orgID, batch, take)
	}
}

func (s *Service) checkAndTake(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest], take takeFunc) ([]result[takeResult], error) {
	bad, err := s.verifyKeys(ctx, pendingKeys(batch))
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
	all, err := filter(batch, validate, func(calls []slotRequest) ([]takeResult, error) { return take(ctx, orgID, calls) })
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

// pendingKeys returns the distinct pending keys of a batch.
func pendingKeys[Q any](batch []withKey[Q]) []uuid.UUID {
	var keys []uuid.UUID
	for _, each := range batch {
		if each.key != uuid.Nil {
			keys = append(keys, each.key)
		}
	}
	return combine.Distinct(keys)
}

// verifyKeys returns an error for each key that is not valid.
func (s *Service) verifyKeys(ctx context.Context, keys []uuid.UUID) (map[uuid.UUID]error, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var valid []uuid.UUID
	if err := s.batch.validKeys.SelectContext(ctx, &valid, uuidArray(keys), s.opts.Clock.Now()); err != nil {
		return nil, fmt.Errorf("verify keys: %w", err)
	}
	return s.opts.Keys.Reject(keys, valid), nil
}

// prepareProfiles returns the launch configurations of the profiles of a batch.
func (s *Service) prepareProfiles(ctx context.Context, orgID uuid.UUID, batch []withKey[slotRequest]) (preparedProfiles, error) {
	var ids []uuid.UUID
	for _, each := range batch {
		if each.request.profileID != nil {
			ids = append(ids, *each.request.profileID)
		}
	}
	if len(ids) == 0 || s.opts.Profiles == nil {
		return nil, nil
	}
	return s.opts.Profiles.Prepare(ctx, orgID, combine.Distinct(ids))
}
