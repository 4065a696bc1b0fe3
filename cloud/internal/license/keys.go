package license

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// Keys knows the organization keys.
type Keys interface {
	// Valid returns those of the keys that are good now.
	Valid(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]bool, error)
}

// keyed is a call, and the key that has to be checked before it is done; Nil is
// none.
type keyed[Q any] struct {
	call Q
	key  uuid.UUID
}

// told is the answer to a call, or that its key is not good.
type told[A any] struct {
	answer A
	denied bool
}

// result makes what a combiner returns an answer.
func (t told[A]) result(err error) (A, error) {
	if err == nil && t.denied {
		err = fault.New(fault.Unauthenticated, "The organization key is wrong, revoked or expired.")
	}
	return t.answer, err
}

// checking does a batch of calls, but for those whose key is not good. The keys
// are asked for when the batch begins, and so after each of its calls came.
func checking[Q, A any](keys Keys, do func(context.Context, uuid.UUID, []Q) ([]A, error)) func(context.Context, uuid.UUID, []keyed[Q]) ([]told[A], error) {
	return func(ctx context.Context, orgID uuid.UUID, batch []keyed[Q]) ([]told[A], error) {
		bad, err := badKeys(ctx, keys, batch)
		if err != nil {
			return nil, err
		}
		calls := make([]Q, 0, len(batch))
		for _, each := range batch {
			if !bad[each.key] {
				calls = append(calls, each.call)
			}
		}
		var answers []A
		if len(calls) > 0 {
			if answers, err = do(ctx, orgID, calls); err != nil {
				return nil, err
			}
		}
		all := make([]told[A], len(batch))
		for i, each := range batch {
			if all[i].denied = bad[each.key]; !all[i].denied {
				all[i].answer, answers = answers[0], answers[1:]
			}
		}
		return all, nil
	}
}

// badKeys are those of the batch's keys to check that are not good.
func badKeys[Q any](ctx context.Context, keys Keys, batch []keyed[Q]) (map[uuid.UUID]bool, error) {
	var asked []uuid.UUID
	for _, each := range batch {
		if each.key != uuid.Nil {
			asked = append(asked, each.key)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	asked = combine.Distinct(asked)
	valid, err := keys.Valid(ctx, asked)
	if err != nil {
		return nil, err
	}
	bad := map[uuid.UUID]bool{}
	for _, id := range asked {
		if !valid[id] {
			bad[id] = true
		}
	}
	return bad, nil
}
