package browser

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

const (
	pausedInterval = time.Second // of the checks whether a request is still paused
	pausedTimeout  = 5 * time.Second
)

// ask holds a paused request until a person has decided about it.
func (g *guard) ask(r pausedRequest, v netrules.Verdict) {
	q, err := g.handovers.Ask(r.FrameID, r.Request.URL, v.String(), handover.DefaultTimeout)
	if err != nil {
		g.log.Warn("a person cannot be asked about a document", "host", hostOf(r.Request.URL), "level", v.Level, "rule", v.Rule, "error", err)
		g.resolve(r, v)
		return
	}
	if !g.begin(func() { g.awaitAnswer(r, v, q) }) {
		q.Withdraw()
	}
}

// awaitAnswer waits for the end of a question. It withdraws the question if the browser no
// longer needs the document.
func (g *guard) awaitAnswer(r pausedRequest, v netrules.Verdict, q *handover.Question) {
	defer q.Withdraw()
	check := time.NewTicker(pausedInterval)
	defer check.Stop()
	for {
		select {
		case <-q.Ended():
			if q.Allowed() {
				v = netrules.Verdict{}
			}
			g.resolve(r, v)
			return
		case <-check.C:
			if !g.isPaused(r) {
				return
			}
		case <-g.conn.Done():
			return
		}
	}
}

// isPaused reports whether a request still waits for an answer. The call fails either way:
// a request without a response has no body.
func (g *guard) isPaused(r pausedRequest) bool {
	ctx, cancel := context.WithTimeout(context.Background(), pausedTimeout)
	defer cancel()
	return !isGone(g.conn.Call(ctx, "", "Fetch.getResponseBody", object{"requestId": r.RequestID}, nil))
}

// isGone reports whether a call failed because its paused request does not exist any more.
func isGone(err error) bool {
	answer, refused := errors.AsType[*cdp.Error](err)
	return refused && strings.Contains(answer.Message, "Invalid InterceptionId")
}
