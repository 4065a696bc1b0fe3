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
	switch x.reserved = 2 * max(x.received, unknownBody); {
	case x.received > MaxBody:
		x.noBody = fmt.Sprintf("The body is longer than %d bytes.", MaxBody)
	case c.full.Load():
		x.noBody = bodiesFull
	case c.pending.Add(x.reserved) > maxPending:
		c.release(x)
		x.noBody = bodyBusy
	default:
		return false
	}
	x.reserved = 0
	return true
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
