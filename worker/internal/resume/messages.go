package resume

import (
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// Statuses with which a connection is closed, beside those of the WebSocket
// protocol. Each is final: no later attempt to resume succeeds. A socket that
// ends without a close frame was cut off, and may be resumed.
const (
	TakenOver       = 4001 // another socket has resumed the connection
	NothingToResume = 4002 // there is no such connection
	Expired         = 4003 // nobody came back in time
	OverBound       = 4004 // what the client lacks could not be kept
	Ahead           = 4005 // the client claims messages that were never sent
)

// closeReason is what a close frame says.
type closeReason struct {
	status uint16
	reason string
}

var (
	closeTakenOver     = closeReason{TakenOver, "taken over"}
	closeNothing       = closeReason{NothingToResume, "nothing to resume"}
	closeExpired       = closeReason{Expired, "expired"}
	closeOverBound     = closeReason{OverBound, "over the bound"}
	closeAhead         = closeReason{Ahead, "ahead of what was sent"}
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

// isIntentional reports whether a client that closes with this is done. The statuses of
// failures, such as that of a ping which got no answer, speak of the socket.
func (g closeReason) isIntentional() bool {
	return g.status <= wsframe.GoingAway || g.status == wsframe.NoStatus || g.status >= 3000
}

// The worker's own messages, which nobody counts.
const (
	resumedMethod = "Svc.resumed" // the first of each socket
	ackMethod     = "Svc.ack"     // a client's, without an id
	ackedMethod   = "Svc.acked"   // answers it
)

// countsMessage is a message that tells how many messages of the client's the browser
// gets, and how many of the browser's there were.
func countsMessage(method string, received, sent int64) []byte {
	return wsframe.FromServer(wsframe.Text, fmt.Appendf(nil, `{"method":%q,"params":{"received":%d,"sent":%d}}`, method, received, sent))
}

// maxAck is the longest acknowledgement that is understood, in bytes with its
// header.
const maxAck = 256

// ackOf reads how many messages a client acknowledges. A message with an id is a
// call, and the browser's to refuse.
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
