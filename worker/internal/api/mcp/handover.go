package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

// progressInterval is how often a waiting tool reports progress.
const progressInterval = 10 * time.Second

var errPersonBusy = toolError("A person has this browser, see request_human. Retry when the person is done.")

type humanInput struct {
	onBrowser
	Reason         string `json:"reason" jsonschema:"what the person is to do, such as: solve the captcha"`
	TimeoutSeconds int64  `json:"timeoutSeconds,omitempty" jsonschema:"how long to wait, 1 to 43200, by default 600"`
	Timeout        int64  `json:"timeout_seconds,omitempty" jsonschema:"earlier name of timeoutSeconds"`
}

func (input humanInput) request() handover.Request {
	r := handover.Request{Reason: input.Reason, Timeout: handover.DefaultTimeout}
	if seconds := cmp.Or(input.TimeoutSeconds, input.Timeout); seconds != 0 {
		r.Timeout = handover.Seconds(seconds)
	}
	return r
}

func (s *Service) addHandoverTool(server *sdk.Server) {
	wait := func(input humanInput) time.Duration { return input.request().Timeout + pageTimeout }
	addTool(s, server, "request_human", "Hand the browser to a person and wait, for example for a captcha, a sign-in or a payment. "+
		"The operator sees the reason in the console of the worker and opens the live view there. Returns the outcome: done, timeout or canceled.", wait, s.requestHuman)
}

// requestHuman hands a browser to a person and waits.
func (s *Service) requestHuman(ctx context.Context, client *clientSession, input humanInput) (result, error) {
	b, err := client.browser(input.handle())
	if err != nil {
		return result{}, err
	}
	launch, ok := s.Browsers.Find(b.launchID.String())
	if !ok {
		return result{}, errEnded(b)
	}
	active, err := launch.Calls.Handovers().Begin(input.request())
	if errors.Is(err, handover.ErrOpen) {
		return result{}, toolError("A handover of this browser is already open. Wait until it has ended.")
	}
	if err != nil {
		return result{}, err
	}
	if err := awaitHuman(ctx, active); err != nil {
		active.Cancel()
		return result{}, err
	}
	ended, _ := active.Result()
	if ended.Outcome == handover.BrowserEnded {
		return result{}, errEnded(b)
	}
	note := fmt.Sprintf("Outcome: %s, after %.0f s.", ended.Outcome, math.Ceil(ended.Duration.Seconds()))
	if ended.Note != "" {
		note += " Note of the person: " + quote(ended.Note)
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	answer, err := s.use(ctx, b, func(context.Context) (result, error) { return result{note: note}, nil })
	if err != nil { // the outcome counts nevertheless
		return result{note: joinLines(note, s.describe(err, b).Error())}, nil
	}
	return answer, nil
}

// awaitHuman waits for the end of a handover and reports progress.
func awaitHuman(ctx context.Context, active *handover.Handover) error {
	report := progressOf(ctx)
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	report(ctx, active)
	for {
		select {
		case <-active.Ended():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			report(ctx, active)
		}
	}
}

// progressKey is the context key of the request of a tool.
type progressKey struct{}

// progressOf returns the function that reports the progress of a handover. It does
// nothing if the client has not requested progress.
func progressOf(ctx context.Context) func(context.Context, *handover.Handover) {
	call, _ := ctx.Value(progressKey{}).(*sdk.CallToolRequest)
	if call == nil || call.Params.GetProgressToken() == nil {
		return func(context.Context, *handover.Handover) {}
	}
	return func(ctx context.Context, active *handover.Handover) {
		// Fails if the client has no open stream.
		_ = call.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: call.Params.GetProgressToken(), Message: "Waiting for a person.",
			Progress: math.Round(time.Since(active.Since).Seconds()), Total: active.Until.Sub(active.Since).Seconds(),
		})
	}
}

// awaitPerson waits until no handover of a browser is open.
func awaitPerson(ctx context.Context, handovers *handover.Handovers) error {
	handoverCtx := handovers.Held()
	if handoverCtx == nil {
		return nil
	}
	select {
	case <-handoverCtx.Done():
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errPersonBusy
		}
		return context.Cause(ctx)
	}
}
