package resume

import (
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// Close statuses beside those of the WebSocket protocol. Each is final: the
// connection cannot be resumed. A socket that ends without a close frame can be.
const (
	TakenOver       = 4001 // another socket has resumed the connection
	NothingToResume = 4002 // the connection does not exist
	Expired         = 4003 // the client did not reconnect in time
	OverBound       = 4004 // messages that the client missed exceeded the buffer
	Ahead           = 4005 // the client claims messages that were never sent
)

// closeReason is the content of a close frame.
type closeReason struct {
	status uint16
	reason string
}

var (
	closeTakenOver     = closeReason{TakenOver, "taken over"}
	closeNothing       = closeReason{NothingToResume, "nothing to resume"}
	closeExpired       = closeReason{Expired, "expired"}
	closeOverBound     = closeReason{OverBound, "buffer limit exceeded"}
	closeAhead         = closeReason{Ahead, "more than was sent"}
	closeBrowserGone   = closeReason{wsframe.GoingAway, "the browser's socket has ended"}
	closeShutdown      = closeReason{wsframe.GoingAway, "the worker is shutting down"}
	closeProtocolError = closeReason{wsframe.ProtocolError, "not a WebSocket frame"}
	closeTooBig        = closeReason{wsframe.TooBig, "the message is too big"}
)

func (g closeReason) frame() []byte {
	return wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(g.status, g.reason))
}

// readCloseReason reads a peer's close frame.
func readCloseReason(m wsframe.Message) closeReason {
	status, reason := wsframe.ReadClose(m.Payload())
	return closeReason{status, reason}
}

// isIntentional reports whether the client is done. Statuses of failures, such
// as a ping timeout, concern the socket only.
func (g closeReason) isIntentional() bool {
	return g.status <= wsframe.GoingAway || g.status == wsframe.NoStatus || g.status >= 3000
}

// The worker's own messages, which are not counted.
const (
	resumedMethod = "Svc.resumed" // the first of each socket
	ackMethod     = "Svc.ack"     // a client's, without an id
	ackedMethod   = "Svc.acked"   // answers it
)

// countsMessage reports how many of the client's messages were accepted and how
// many messages the browser has sent.
func countsMessage(method string, received, sent int64) []byte {
	return wsframe.FromServer(wsframe.Text, fmt.Appendf(nil, `{"method":%q,"params":{"received":%d,"sent":%d}}`, method, received, sent))
}

// maxAck limits the length of an acknowledgement with its header, in bytes.
const maxAck = 256

// ackOf reads the message number that a client acknowledges. A message with an
// id is a call to the browser.
func ackOf(m wsframe.Message) (seq int64, ok bool) {
	if m.Opcode != wsframe.Text || len(m.Raw) > maxAck {
		return 0, false
	}
	var ack struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Seq int64 `json:"seq"`
		} `json:"params"`
	}
	err := json.Unmarshal(m.Payload(), &ack)
	return ack.Params.Seq, err == nil && ack.Method == ackMethod && ack.ID == nil
}
