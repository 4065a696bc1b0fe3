package browser

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

const (
	guardQueue   = 8192            // unread events
	blankTimeout = 5 * time.Second // to take a denied document from a page
)

// guard enforces the rules of a launch for what the browser requests. The worker's own
// connection intercepts the requests of all targets, at the browser target: no client can
// end that, and it is nearer to the network than the interceptions of clients and pages.
// Documents that no request precedes, such as those of chrome:, are replaced when they are
// shown. The proxy of the launch enforces the rules for connections.
type guard struct {
	conn  *cdp.Conn
	log   *slog.Logger
	end   func()                                // ends the browser without waiting
	queue int                                   // unread events
	count func(host string, v netrules.Verdict) // of a denied request; nil: not counted

	handovers *handover.Handovers // asks persons
	blockList *BlockList          // nil: there is none
	secrets   func() []string     // values that the browser was filled with

	replay     *Replay         // nil: there is none; set by start
	replaying  chan struct{}   // has an element for each response that is read
	replayCtx  context.Context // ends with the browser
	stopReplay context.CancelFunc

	rules  atomic.Pointer[netrules.Policy] // nil without rules
	recent []time.Time                     // of requests in the last minute; used only by the loop

	notices chan struct{} // has an element for each page about a rule that is written

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

func newGuard(conn *cdp.Conn, handovers *handover.Handovers, log *slog.Logger, end func()) *guard {
	g := &guard{conn: conn, handovers: handovers, log: log, end: end, queue: guardQueue, notices: make(chan struct{}, maxNotices), replaying: make(chan struct{}, maxReplaying)}
	g.replayCtx, g.stopReplay = context.WithCancel(context.Background())
	return g
}

// pausedRequest is Fetch.requestPaused.
type pausedRequest struct {
	RequestID           string `json:"requestId"`
	RedirectedRequestID string `json:"redirectedRequestId"` // of the request that was redirected to this one
	NetworkID           string `json:"networkId"`           // of a document: its loader
	FrameID             string `json:"frameId"`
	ResourceType        string `json:"resourceType"`
	Request             struct {
		URL             string                   `json:"url"`
		Method          string                   `json:"method"`
		Headers         map[string]string        `json:"headers"`
		PostDataEntries []struct{ Bytes []byte } `json:"postDataEntries"`
	} `json:"request"`
}

// start enforces the rules of a spec, and replays, until the connection ends. It is called once, before the first page.
func (g *guard) start(ctx context.Context, s *Spec) error {
	g.rules.Store(s.Rules)
	g.replay = s.Replay
	patterns := guardPatterns(s.Rules)
	if g.replay != nil {
		patterns = []object{{"urlPattern": "*"}}
	}
	if len(patterns) == 0 {
		return nil
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return cdp.ErrClosed
	}
	events := g.conn.Subscribe(g.queue, "Fetch.requestPaused", "Target.targetCreated", "Target.targetInfoChanged")
	g.work.Go(func() { g.loop(events) })
	g.mu.Unlock()
	return g.conn.Call(ctx, "", "Fetch.enable", object{"patterns": patterns}, nil)
}

// guardPatterns returns the requests that the rules concern.
func guardPatterns(rules *netrules.Policy) (patterns []object) {
	if rules.FiltersRequests() || slices.Contains(rules.Blocked(), ads) {
		return []object{{"urlPattern": "*"}}
	}
	if rules.FiltersNavigation() {
		patterns = append(patterns, object{"urlPattern": "*", "resourceType": "Document"})
	}
	for _, content := range rules.Blocked() {
		if kind := resourceTypes[content]; kind != "" {
			patterns = append(patterns, object{"urlPattern": "*", "resourceType": kind})
		}
	}
	return patterns
}

// resourceTypes translates contents of rules to the protocol.
var resourceTypes = map[string]string{"image": "Image", "media": "Media", "font": "Font"}

// wait waits for the end of all work; the connection must be closing.
func (g *guard) wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stopReplay()
	g.work.Wait()
}

func (g *guard) loop(events *cdp.Subscription) {
	for event := range events.Events() {
		if event.Method == "Fetch.requestPaused" {
			if event.SessionID == "" { // of other sessions: not the guard's
				g.answer(event)
			}
			continue
		}
		var target struct{ TargetInfo targetState }
		if json.Unmarshal(event.Params, &target) == nil {
			g.inspect(target.TargetInfo)
		}
	}
	if errors.Is(events.Err(), cdp.ErrLagged) {
		g.log.Error("browser ended: requests came faster than the rules of its launch could be applied")
		g.end()
	}
}

// answer answers a paused request. The browser waits for each answer.
func (g *guard) answer(event cdp.Event) {
	var r pausedRequest
	if err := json.Unmarshal(event.Params, &r); err != nil {
		g.log.Error("browser ended: a paused request is not understood", "error", err)
		g.end()
		return
	}
	v := g.decide(r)
	switch {
	case v.Ask:
		g.ask(r, v)
	case !v.Denied && r.ResourceType == "Document" && g.decideAd(r).Denied:
		g.begin(func() { g.resolveAd(r) })
	default:
		g.resolve(r, v)
	}
}

// resolve answers a paused request with a recorded response, or continues or fails it.
func (g *guard) resolve(r pausedRequest, v netrules.Verdict) {
	if !v.Denied {
		var done bool
		if v, done = g.replays(r); done {
			return
		}
	}
	g.finish(r, v)
}

// finish continues or fails a paused request.
func (g *guard) finish(r pausedRequest, v netrules.Verdict) {
	method, params := "Fetch.continueRequest", object{"requestId": r.RequestID}
	if v.Denied {
		g.log.Debug("request denied by rule", "host", hostOf(r.Request.URL), "type", r.ResourceType, "level", v.Level, "rule", v.Rule)
		g.countDenied(r.Request.URL, v)
		method, params["errorReason"] = "Fetch.failRequest", "BlockedByClient"
	}
	reply, err := g.conn.Send(context.Background(), "", method, params) // ends with the connection
	if err != nil {
		return
	}
	reply.Discard()
	if v.Denied && r.ResourceType == "Document" {
		g.begin(func() { g.explain(r, v) })
	}
}

// begin does work that wait waits for. It reports false after wait.
func (g *guard) begin(work func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.work.Go(work)
	}
	return !g.closed
}

func (g *guard) countDenied(address string, v netrules.Verdict) {
	if g.count != nil {
		g.count(hostOf(address), v)
	}
}

// hostOf returns the host of a URL with its port, or only its scheme.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		scheme, _, _ := strings.Cut(address, ":")
		return scheme + ":"
	}
	return u.Host
}

// policy returns the rules; nil for none.
func (g *guard) policy() *netrules.Policy {
	if g == nil { // the browser has not started
		return nil
	}
	return g.rules.Load()
}

// decide returns the verdict about a request.
func (g *guard) decide(r pausedRequest) netrules.Verdict {
	rules := g.policy()
	v := rules.Intercept(netrules.Request{URL: r.Request.URL, Method: r.Request.Method, Type: strings.ToLower(r.ResourceType)})
	if v.Denied && !v.Ask {
		return v
	}
	if r.ResourceType != "Document" {
		if ad := g.decideAd(r); ad.Denied {
			return ad
		}
	}
	if !rules.FiltersRequests() {
		return v
	}
	now := time.Now()
	for len(g.recent) > 0 && now.Sub(g.recent[0]) >= time.Minute {
		g.recent = g.recent[1:]
	}
	if late := rules.Rate(len(g.recent)); late.Denied {
		return late
	}
	g.recent = append(g.recent, now)
	return v
}

// targetState is the part of Target.TargetInfo that the guard reads.
type targetState struct {
	TargetID string `json:"targetId"`
	Type     string `json:"type"`
	URL      string `json:"url"`
}

// requestedSchemes are those of documents that are intercepted before they are shown. The
// last is that of the page about a failed request.
var requestedSchemes = []string{"http:", "https:", "file:", "chrome-error:"}

// inspect replaces the document of a tab if it is denied and was not requested.
func (g *guard) inspect(target targetState) {
	if target.Type != "page" || slices.ContainsFunc(requestedSchemes, func(s string) bool { return strings.HasPrefix(target.URL, s) }) {
		return
	}
	v := g.policy().Navigate(target.URL)
	if !v.Denied {
		return
	}
	g.log.Info("page denied by rule", "level", v.Level, "rule", v.Rule)
	g.countDenied(target.URL, v)
	g.begin(func() { g.blank(target.TargetID) })
}

// blank replaces the document of a tab by a blank one, or closes the tab.
func (g *guard) blank(targetID string) {
	ctx, cancel := context.WithTimeout(context.Background(), blankTimeout)
	defer cancel()
	var attached struct{ SessionID string }
	err := g.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": targetID, "flatten": true}, &attached)
	if err == nil {
		err = g.conn.Call(ctx, attached.SessionID, "Page.navigate", object{"url": "about:blank"}, nil)
		_ = g.conn.Call(ctx, "", "Target.detachFromTarget", object{"sessionId": attached.SessionID}, nil)
	}
	if err == nil || errors.Is(err, cdp.ErrClosed) {
		return
	}
	g.log.Debug("failed to blank a denied page", "error", err)
	closing, cancelClosing := context.WithTimeout(context.Background(), blankTimeout)
	defer cancelClosing()
	if err := g.conn.Call(closing, "", "Target.closeTarget", object{"targetId": targetID}, nil); err != nil {
		g.log.Debug("failed to close a denied page", "error", err) // it has ended
	}
}
