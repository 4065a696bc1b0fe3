package browser

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

const (
	replayTimeout = 15 * time.Second // to read a response, and to hand it to the browser
	maxReplaying  = 4                // responses that are read at a time
)

// Replay answers the requests of a launch with recorded responses.
type Replay struct {
	Strict bool // a request without a response fails; otherwise it is sent
	// Take takes the next response to a request. It returns nil without one, and otherwise a function that reads it: the
	// status of a request that failed is 0, and its Status the error of Chromium. It must not block, and is called concurrently.
	Take func(ReplayRequest) func(context.Context) (*http.Response, error)
}

// ReplayRequest is a request to be answered.
type ReplayRequest struct {
	ID          string // the same if it is repeated; "": unknown
	Method, URL string
	MimeType    string // of Body
	Body        []byte
	Secrets     []string // values that the browser was filled with
}

// What of a request is not replayed, as rules of the level replay.
const (
	replayLevel      = "replay"
	replayUnrecorded = "unrecorded"
	replayIncomplete = "incomplete"
)

// replays answers a paused request with a recorded response, in the background. It reports false if it does not: another
// answer is needed, which v says.
func (g *guard) replays(r pausedRequest) (v netrules.Verdict, done bool) {
	if g.replay == nil || !strings.HasPrefix(r.Request.URL, "http:") && !strings.HasPrefix(r.Request.URL, "https:") {
		return netrules.Verdict{}, false
	}
	read := g.replay.Take(r.recorded(g.secrets())) //nolint:bodyclose // it reads nothing
	if read == nil {
		return g.unreplayed(replayUnrecorded), false
	}
	r.Request.PostDataEntries = nil // it waits without them
	g.begin(func() { g.fulfill(r, read) })
	return netrules.Verdict{}, true
}

// unreplayed returns the verdict about a request that cannot be replayed.
func (g *guard) unreplayed(rule string) netrules.Verdict {
	if !g.replay.Strict {
		return netrules.Verdict{}
	}
	return netrules.Verdict{Denied: true, Level: replayLevel, Rule: rule}
}

// recorded describes the request for Take.
func (r pausedRequest) recorded(secrets []string) ReplayRequest {
	recorded := ReplayRequest{ID: r.NetworkID, Method: r.Request.Method, URL: r.Request.URL, Secrets: secrets}
	if r.RedirectedRequestID != "" { // the redirects of a request have its id
		recorded.ID = ""
	}
	for name, value := range r.Request.Headers {
		if strings.EqualFold(name, "Content-Type") {
			recorded.MimeType = value
		}
	}
	for _, part := range r.Request.PostDataEntries {
		recorded.Body = append(recorded.Body, part.Bytes...)
	}
	return recorded
}

// fulfill answers a paused request with a recorded response.
func (g *guard) fulfill(r pausedRequest, read func(context.Context) (*http.Response, error)) {
	select {
	case g.replaying <- struct{}{}:
		defer func() { <-g.replaying }()
	case <-g.replayCtx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(g.replayCtx, replayTimeout)
	defer cancel()
	method, params, err := fulfillment(ctx, read)
	if err == nil {
		params["requestId"] = r.RequestID
		err = g.conn.Call(ctx, "", method, params, nil)
	}
	if err != nil && !isGone(err) && g.replayCtx.Err() == nil {
		g.log.Debug("response not replayed", "host", hostOf(r.Request.URL), "error", err)
		g.finish(r, g.unreplayed(replayIncomplete))
	}
}

// fulfillment returns the call that answers a request as recorded.
func fulfillment(ctx context.Context, read func(context.Context) (*http.Response, error)) (method string, params object, err error) {
	answer, err := read(ctx)
	if err != nil {
		return "", nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == 0 {
		return "Fetch.failRequest", object{"errorReason": failureReason(answer.Status)}, nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", nil, err
	}
	headers := []object{}
	for name, values := range answer.Header {
		for _, value := range values {
			headers = append(headers, object{"name": name, "value": value})
		}
	}
	return "Fetch.fulfillRequest", object{
		"responseCode": answer.StatusCode, "responsePhrase": answer.Status, "responseHeaders": headers, "body": body,
	}, nil
}

// failureReasons are those of the protocol.
var failureReasons = []string{
	"Aborted", "TimedOut", "AccessDenied", "ConnectionClosed", "ConnectionReset", "ConnectionRefused", "ConnectionAborted", "ConnectionFailed",
	"NameNotResolved", "InternetDisconnected", "AddressUnreachable", "BlockedByClient", "BlockedByResponse",
}

// failureReason translates an error such as net::ERR_NAME_NOT_RESOLVED to the protocol; others are Failed.
func failureReason(text string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(text, "net::ERR_"), "_", "")
	i := slices.IndexFunc(failureReasons, func(reason string) bool { return strings.EqualFold(reason, name) })
	if i < 0 {
		return "Failed"
	}
	return failureReasons[i]
}
