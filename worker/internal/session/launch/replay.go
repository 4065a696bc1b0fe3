package launch

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Replay says which recorded session answers the requests of a launch.
type Replay struct {
	HAR    uuid.UUID // a session that was recorded with its requests
	Strict bool      // the browser reaches no network
}

// OpenReplay returns what answers requests from the recording of a session, for a caller with an organization key, or zero for
// the worker key. Errors: ErrReplayForbidden, ErrReplayUnknown, ErrReplayEmpty, or that the store of recordings has failed.
type OpenReplay func(ctx context.Context, caller session.OrganizationKey, recorded uuid.UUID) (*browser.Replay, error)

// Errors of OpenReplay.
var (
	ErrReplayForbidden = errors.New("the caller cannot read recordings")
	ErrReplayUnknown   = errors.New("no such recording")
	ErrReplayEmpty     = errors.New("the recording has no requests")
)

// replayField is the field of a launch with the session that is replayed.
const replayField = "browser.replay.har"

// openReplay returns what answers the requests of a launch; nil for the network.
func (s *Service) openReplay(ctx context.Context, r Request) (*browser.Replay, error) {
	if r.Replay == nil {
		return nil, nil //nolint:nilnil // most launches have none
	}
	err := ErrReplayUnknown
	var replay *browser.Replay
	if s.OpenReplay != nil {
		replay, err = s.OpenReplay(ctx, r.OrganizationKey, r.Replay.HAR)
	}
	problem := fault.Detail{Field: replayField, Code: fault.Custom, Received: r.Replay.HAR}
	switch {
	case err == nil:
		replay.Strict = r.Replay.Strict
		return replay, nil
	case errors.Is(err, ErrReplayForbidden):
		problem.Message = "needs the worker key, as for reading a recording"
	case errors.Is(err, ErrReplayUnknown):
		problem.Code, problem.Message = fault.ResourceNotFound, `is not a session that this worker has recorded; launch it with browser.record ["har"]`
	case errors.Is(err, ErrReplayEmpty):
		problem.Message = `was recorded without its requests; launch it with browser.record ["har"]`
	default:
		return nil, fault.Wrap(err, fault.Unavailable, "The recording of "+replayField+" could not be read. Try again.")
	}
	return nil, fault.Invalid(problem)
}

// replayRules close the network for a strict replay; nil for none.
func (r Request) replayRules() *netrules.Rules {
	if r.Replay == nil || !r.Replay.Strict {
		return nil
	}
	return &netrules.Rules{Connect: &netrules.Filter{Allow: []string{}}}
}
