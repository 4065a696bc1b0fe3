package har

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

const unknownBody = 64 << 10 // bytes that are assumed for a body of unknown length

// skipsBody reports whether the body of an exchange is not fetched. Otherwise memory is
// reserved for it.
func (c *collector) skipsBody(x *exchange) bool {
	if x.request.Method == http.MethodHead || x.response.Status == http.StatusNoContent || x.response.Status == http.StatusNotModified {
		return true
	}
	switch size := 2 * max(x.received, unknownBody); {
	case x.received > MaxBody:
		x.noBody = fmt.Sprintf("The body is longer than %d bytes.", MaxBody)
	case c.full.Load():
		x.noBody = bodiesFull
	case c.pending.Load()+size > maxPending:
		x.noBody = bodyBusy
	default:
		x.reserved += size
		c.pending.Add(size)
		return false
	}
	return true
}

// reserveRequest reserves memory for a request, or leaves out its body.
func (c *collector) reserveRequest(x *exchange) {
	r := &x.request
	size := int64(len(r.URL))
	for _, part := range r.PostDataEntries {
		size += int64(len(part.Bytes))
	}
	if len(r.PostDataEntries) > 0 {
		r.PostData = "" // the same
	}
	if size += int64(len(r.PostData)); c.pending.Load()+size > maxPending {
		r.PostData, r.PostDataEntries, size = "", nil, int64(len(r.URL))
		x.comment = "The worker was too busy to record the body of the request."
	}
	x.reserved = size
	c.pending.Add(size)
}

// Why there is no body.
const (
	bodiesFull = "The bodies of this recording have reached their limit."
	bodyBusy   = "The worker was too busy to record the body."
	bodyGone   = "The browser did not have the body any more."
)

// release returns what an exchange has reserved.
func (c *collector) release(x *exchange) {
	if x.socket != nil {
		c.sockets.Add(-x.reserved)
	} else {
		c.pending.Add(-x.reserved)
	}
	x.reserved = 0
}

// fetchBodies fetches the bodies of exchanges, and hands these to the writer.
func (c *collector) fetchBodies() {
	for x := range c.bodies {
		c.fetchBody(x)
		c.out <- item{exchange: x}
	}
}

func (c *collector) fetchBody(x *exchange) {
	ctx, cancel := context.WithTimeout(c.calls, bodyTimeout)
	defer cancel()
	var answer struct {
		Body          string
		Base64Encoded bool
	}
	if err := c.conn.Call(ctx, x.session, "Network.getResponseBody", map[string]any{"requestId": x.id}, &answer); err != nil {
		x.noBody = bodyGone
		return
	}
	length := len(answer.Body)
	if answer.Base64Encoded {
		length = base64.StdEncoding.DecodedLen(length) - strings.Count(answer.Body[max(0, length-2):], "=")
	}
	switch {
	case length > MaxBody:
		x.noBody = fmt.Sprintf("The body is longer than %d bytes.", MaxBody)
	case c.KeepBody != nil && !c.KeepBody(int64(length)):
		c.full.Store(true)
		x.noBody = bodiesFull
	default:
		x.body, x.base64 = answer.Body, answer.Base64Encoded
	}
	x.received = max(x.received, int64(length))
}
