package har

import (
	"cmp"
	"net/http"
	"time"
)

// chain is a request with its redirects, which have the same id. ExtraInfo events can arrive
// before and after the events that they belong to. They have the order of the redirects.
type chain struct {
	current   *exchange   // until it has ended
	waiting   []*exchange // have ended, but not all of their ExtraInfo events have arrived
	requests  []extra
	responses []extra
	claimed   int       // exchanges with ExtraInfo events
	partial   bool      // its begin was not recorded, so that the events cannot be counted
	done      bool      // the last exchange has ended
	idle      time.Time // since when nothing is awaited
}

// exchange is a request with its response.
type exchange struct {
	id       string
	session  string
	target   string
	page     *page // nil outside of pages
	isMain   bool  // it is the document of the page
	frame    string
	kind     string
	started  float64 // monotonic
	wallTime float64
	request  requestData
	response *responseData
	extras   bool // the headers on the wire follow in ExtraInfo events
	claim    int  // the index of these events
	received int64
	size     float64 // on the wire
	cached   bool    // in memory
	ended    float64
	endedAt  time.Time
	failure  string
	comment  string
	socket   *socket

	requestHeaders  map[string]string // on the wire
	responseHeaders map[string]string

	body       string
	base64     bool
	noBody     string // why there is no body
	reserved   int64
	isBodiless bool
}

// network handles a Network event.
func (c *collector) network(session, method string, p networkEvent) {
	h := c.chains[p.RequestID]
	if h == nil {
		if len(c.chains) >= maxChains {
			c.lost.Store(true)
			return
		}
		h = &chain{idle: time.Now()}
		c.chains[p.RequestID] = h
	}
	switch method {
	case "Network.requestWillBeSent":
		c.requested(h, session, p)
	case "Network.requestWillBeSentExtraInfo":
		h.requests = append(h.requests, extra{headers: p.Headers})
	case "Network.responseReceivedExtraInfo":
		h.responses = append(h.responses, extra{headers: p.Headers, status: p.StatusCode})
	case "Network.webSocketCreated":
		c.openSocket(h, session, p)
	default:
		if method == "Network.responseReceived" {
			c.recover(h, session, p)
		}
		if x := h.current; x != nil {
			x.session = session // the document of a frame of another site begins in its parent
			c.progress(h, x, method, p)
		}
	}
	c.settle(h, time.Time{})
}

// requested begins an exchange, and ends the one that it is redirected from.
func (c *collector) requested(h *chain, session string, p networkEvent) {
	switch x := h.current; {
	case p.RedirectResponse == nil && (x != nil || h.done): // two sessions report the script of a worker
		return
	case x != nil:
		x.respond(h, p.RedirectResponse, p.RedirectHasExtraInfo)
		x.isBodiless = true
		h.end(x, p.Timestamp)
	case p.RedirectResponse != nil:
		h.partial = true
	}
	if !isRecorded(p.Request.URL) {
		return
	}
	h.current = &exchange{
		id: p.RequestID, session: session, frame: p.FrameID, kind: p.Type, started: p.Timestamp, wallTime: p.WallTime, request: p.Request,
	}
	c.reserveRequest(h.current)
	c.place(h.current, p)
}

// requestUnseen is the comment of an exchange whose request was not seen.
const requestUnseen = "The request was not seen: its headers are missing, and its method is assumed."

// recover begins the exchange whose request was sent before its target could be followed: that of a document that
// Target.createTarget has opened, or of the script of a service worker.
func (c *collector) recover(h *chain, session string, p networkEvent) {
	if h.current != nil || h.done || p.Response == nil || !isRecorded(p.Response.URL) {
		return
	}
	s := c.sessions[session]
	if isDocument := p.Type == "Document" && p.RequestID == p.LoaderID; !isDocument && (p.Type != "Script" || s == nil || s.kind != "service_worker") {
		return
	}
	h.partial = true
	began := p.Timestamp
	if p.Response.Timing != nil {
		began = p.Response.Timing.RequestTime
	}
	p.WallTime = float64(time.Now().UnixMicro())/1e6 - p.Timestamp + began
	p.Request = requestData{URL: p.Response.URL, Method: http.MethodGet}
	h.current = &exchange{
		id: p.RequestID, session: session, frame: p.FrameID, kind: p.Type, started: began, wallTime: p.WallTime, request: p.Request,
		comment: requestUnseen,
	}
	c.place(h.current, p)
}

// progress handles an event of a running exchange.
func (c *collector) progress(h *chain, x *exchange, method string, p networkEvent) {
	switch method {
	case "Network.requestServedFromCache":
		x.cached = true
	case "Network.responseReceived":
		if p.Response != nil {
			x.respond(h, p.Response, p.HasExtraInfo)
		}
		if p.Type != "" {
			x.kind = p.Type
		}
	case "Network.dataReceived":
		x.received += p.DataLength
	case "Network.loadingFinished":
		x.size, h.done = p.EncodedDataLength, true
		h.end(x, p.Timestamp)
		if x.isMain {
			c.followLoad(x)
		}
	case "Network.loadingFailed":
		x.failure, h.done, x.isBodiless = cmp.Or(p.ErrorText, p.BlockedReason, "failed"), true, true
		if x.response == nil && !h.partial && len(h.requests) > h.claimed {
			x.requestHeaders = h.requests[h.claimed].headers
		}
		h.end(x, p.Timestamp)
	default:
		if x.socket != nil {
			c.socketEvent(h, x, method, p)
		}
	}
}

// respond sets the response of an exchange.
func (x *exchange) respond(h *chain, r *responseData, extras bool) {
	if x.response == nil && extras && !x.cached && !h.partial {
		x.extras, x.claim = true, h.claimed
		h.claimed++
	}
	x.response = r
}

// end ends the current exchange.
func (h *chain) end(x *exchange, timestamp float64) {
	x.ended, x.endedAt = timestamp, time.Now()
	h.current, h.waiting = nil, append(h.waiting, x)
}

// settle finishes the exchanges that have ended and whose headers are known, or that ended before a time.
func (c *collector) settle(h *chain, before time.Time) {
	for len(h.waiting) > 0 {
		x := h.waiting[0]
		if !h.complete(x) && !x.endedAt.Before(before) {
			return
		}
		h.waiting = h.waiting[1:]
		c.finish(x)
		h.idle = time.Now()
	}
}

// complete adds the headers on the wire to an exchange; false if they have not arrived.
func (h *chain) complete(x *exchange) bool {
	if !x.extras {
		return true
	}
	if len(h.requests) > x.claim {
		x.requestHeaders = h.requests[x.claim].headers
	}
	for _, e := range h.responses[min(x.claim, len(h.responses)):] {
		if e.status == x.response.Status { // not of an attempt before, nor a 304 for a response in the cache
			x.responseHeaders = e.headers
			break
		}
	}
	return x.requestHeaders != nil && x.responseHeaders != nil
}

// finish hands an exchange to the writer, by way of those that fetch bodies.
func (c *collector) finish(x *exchange) {
	if x.socket != nil || x.isBodiless || x.response == nil || c.skipsBody(x) {
		c.deliver(x)
		return
	}
	select {
	case c.bodies <- x:
	default:
		c.release(x)
		x.noBody = bodyBusy
		c.deliver(x)
	}
}

func (c *collector) deliver(x *exchange) {
	if !c.emit(item{exchange: x}) {
		c.release(x)
	}
}

// sweep finishes exchanges whose headers did not arrive, and forgets old requests.
func (c *collector) sweep(now time.Time) {
	for id, h := range c.chains {
		c.settle(h, now.Add(-extraWait))
		if h.current == nil && len(h.waiting) == 0 && now.Sub(h.idle) > chainAge {
			delete(c.chains, id)
		}
	}
}

// endSession ends the requests of a target that is gone.
func (c *collector) endSession(session, comment string) {
	for _, h := range c.chains {
		if h.current != nil && h.current.session == session {
			h.abandon(comment)
			c.settle(h, time.Time{})
		}
	}
}

// endAll ends all requests.
func (c *collector) endAll(comment string) {
	for _, h := range c.chains {
		h.abandon(comment)
		c.settle(h, time.Now().Add(time.Hour))
	}
}

func (h *chain) abandon(comment string) {
	if x := h.current; x != nil {
		x.isBodiless, h.done = true, true
		if x.socket == nil || x.response == nil {
			x.comment = comment
		}
		h.end(x, -1)
	}
}
