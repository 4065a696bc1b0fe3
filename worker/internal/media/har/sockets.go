package har

import "time"

const (
	maxSocketBytes    = 1 << 20 // of the messages of a WebSocket
	maxSocketMessages = 10_000
)

// socket is a WebSocket. Its messages stay in memory until it closes.
type socket struct {
	messages []Message
	cut      bool // later messages are missing
}

// openSocket begins the exchange of a WebSocket.
func (c *collector) openSocket(h *chain, session string, p networkEvent) {
	if h.current != nil || h.done || !isRecorded(p.URL) {
		return
	}
	h.current = &exchange{
		id: p.RequestID, session: session, kind: "websocket", socket: &socket{}, isBodiless: true,
		wallTime: float64(time.Now().UnixMicro()) / 1e6, request: requestData{Method: "GET", URL: p.URL},
	}
	c.place(h.current, p)
}

// socketEvent handles an event of a WebSocket.
func (c *collector) socketEvent(h *chain, x *exchange, method string, p networkEvent) {
	switch method {
	case "Network.webSocketWillSendHandshakeRequest":
		x.started, x.wallTime, x.request.Headers = p.Timestamp, p.WallTime, p.Request.Headers
	case "Network.webSocketHandshakeResponseReceived":
		x.response = p.Response
	case "Network.webSocketFrameSent":
		c.addMessage(x, "send", p)
	case "Network.webSocketFrameReceived":
		c.addMessage(x, "receive", p)
	case "Network.webSocketClosed":
		h.done = true
		h.end(x, p.Timestamp)
	}
}

func (c *collector) addMessage(x *exchange, kind string, p networkEvent) {
	s := x.socket
	if p.Response == nil || s.cut {
		return
	}
	size := int64(len(p.Response.PayloadData))
	if x.reserved+size > maxSocketBytes || len(s.messages) >= maxSocketMessages || c.sockets.Load()+size > maxPending {
		s.cut = true
		x.comment = "Later messages are missing: there were too many."
		return
	}
	x.reserved += size
	c.sockets.Add(size)
	s.messages = append(s.messages, Message{
		Type: kind, Time: x.wallTime + p.Timestamp - x.started, Opcode: int(p.Response.Opcode), Data: p.Response.PayloadData,
	})
}
