package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// maxRequests is how many requests of a tab are remembered.
const maxRequests = 200

// networkRequest is a request of a page. A redirect begins another one.
type networkRequest struct {
	id, method, address, kind string
	status                    int
	failure                   string
}

func (r networkRequest) String() string {
	outcome := "pending"
	switch {
	case r.failure != "":
		outcome = "failed: " + r.failure
	case r.status > 0:
		outcome = fmt.Sprint(r.status)
	}
	return fmt.Sprintf("%s %s (%s) %s", r.method, outcome, strings.ToLower(r.kind), r.address)
}

// networkEvent has the parameters of all events of the Network domain that are recorded.
type networkEvent struct {
	RequestID, Type, ErrorText string
	Request                    struct{ URL, Method string }
	Response, RedirectResponse *struct{ Status int }
}

// recordRequest records an event of the Network domain. The caller holds the lock of the browser.
func (t *tab) recordRequest(event cdp.Event) {
	var e networkEvent
	if json.Unmarshal(event.Params, &e) != nil {
		return
	}
	i := len(t.requests) - 1
	for i >= 0 && t.requests[i].id != e.RequestID {
		i--
	}
	switch {
	case event.Method == "Network.requestWillBeSent":
		if i >= 0 && e.RedirectResponse != nil {
			t.requests[i].status = e.RedirectResponse.Status
		}
		if len(t.requests) >= maxRequests {
			t.requests = slices.Delete(t.requests, 0, 1)
		}
		t.requests = append(t.requests, networkRequest{id: e.RequestID, method: e.Request.Method, kind: e.Type, address: shorten(e.Request.URL, maxLine)})
	case i < 0:
	case e.Response != nil:
		t.requests[i].status = e.Response.Status
	case e.ErrorText != "":
		t.requests[i].failure = e.ErrorText
	}
}

func (p pageCall) networkRequests(ctx context.Context, input networkInput) (result, error) {
	if err := p.evaluate(ctx, p.tab, "0", new(int)); err != nil { // the page has sent its earlier events
		return result{}, err
	}
	if err := p.subscription.Flush(ctx); err != nil {
		return result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, r := range p.tab.requests {
		if strings.Contains(r.address, input.Contains) && (!input.Failed || r.failure != "" || r.status >= 400) {
			lines = append(lines, r.String())
		}
	}
	return newest(lines, maxRequests, "such requests"), nil
}
