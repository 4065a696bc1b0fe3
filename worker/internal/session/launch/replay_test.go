package launch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// TestReplay_RefusesWhatCannotBeReplayed names the field, and asks neither the machine nor the cloud.
func TestReplay_RefusesWhatCannotBeReplayed(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
		code string
	}{
		"a caller without the worker key": {launch.ErrReplayForbidden, fault.Validation, fault.Custom},
		"an unknown session":              {launch.ErrReplayUnknown, fault.Validation, fault.ResourceNotFound},
		"a recording without requests":    {launch.ErrReplayEmpty, fault.Validation, fault.Custom},
		"a store that fails":              {errors.New("no answer"), fault.Unavailable, ""},
	} {
		r := newFixture(t, func(o *launch.Options) {
			o.Launcher = &recordingLauncher{}
			o.OpenReplay = func(context.Context, session.OrganizationKey, uuid.UUID) (*browser.Replay, error) { return nil, c.err }
		})
		request := byProfile()
		request.Replay = &launch.Replay{HAR: uuid.New()}
		_, err := r.Launch(t.Context(), request)
		f := fault.From(err)
		if f == nil || f.Kind != c.kind || c.code != "" && (len(f.Details) != 1 || f.Details[0].Field != "browser.replay.har" || f.Details[0].Code != c.code) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestReplay_ClosesNetwork passes the replay to the browser, and rules to the browser and its egress.
func TestReplay_ClosesNetwork(t *testing.T) {
	for _, strict := range []bool{true, false} {
		launcher, client := &recordingLauncher{}, session.OrganizationKey{}
		r := newFixture(t, func(o *launch.Options) {
			o.Launcher = launcher
			o.OpenReplay = func(_ context.Context, caller session.OrganizationKey, _ uuid.UUID) (*browser.Replay, error) {
				client = caller
				return &browser.Replay{}, nil
			}
		})
		request := byProfile()
		request.OrganizationKey, request.Replay = session.NewOrganizationKey("svc_other"), &launch.Replay{HAR: uuid.New(), Strict: strict}
		_, _ = r.Launch(t.Context(), request) // this launcher starts none
		spec := launcher.spec
		if v := spec.Rules.Connect("site.test", 443); v.Denied != strict || strict && v.Level != "replay" {
			t.Errorf("strict %t: a connection is decided with %+v", strict, v)
		}
		if spec.Replay == nil || spec.Replay.Strict != strict || !client.Equal(request.OrganizationKey) {
			t.Errorf("strict %t: the browser gets %+v for the caller %v", strict, spec.Replay, client)
		}
	}
}
