package intercept

import (
	"bytes"
	"time"
)

// Playwright calls DOM.setFileInputFiles with the path of a directory, also of its own machine,
// and repeats the action until its timeout when the call fails. Only an exception of a function
// that it evaluates reaches the caller at once. So the next function that prepares the choice
// of a directory throws the refusal.

// refusalLifetime is longer than Playwright's pauses between attempts, at most 500 ms.
const refusalLifetime = 2 * time.Second

// directoryChoice is in the arguments of the function that prepares the choice of a directory,
// in Playwright from 1.45.
var directoryChoice = []byte(`{"k":"directoryUpload","v":true}`)

// refusal is the refused path of a session.
type refusal struct {
	session   string
	text      string
	refusedAt time.Time
}

// classify finds the recipient from the beginning of a message of this connection.
func (n *Connection) classify(prefix []byte) recipient {
	v := classify(prefix)
	if (v == forBrowser || v == evaluation) && n.calls.examinesAll() {
		return intercepted
	}
	if v != evaluation {
		return v
	}
	if r := n.refused.Load(); r != nil && time.Since(r.refusedAt) < refusalLifetime {
		return intercepted
	}
	return forBrowser
}

// refusePath returns the answer to a call with a path that the browser cannot read.
func (n *Connection) refusePath(m message, text string) (answer []byte) {
	n.refused.Store(&refusal{session: m.text("sessionId"), text: text, refusedAt: time.Now()})
	return m.refuse(text)
}

// throwRefusal returns the answer that a function has thrown the refusal, if it prepares the
// choice of a directory in the session of the refused path.
func (n *Connection) throwRefusal(m message) (answer []byte) {
	r := n.refused.Load()
	if r == nil || r.session != m.text("sessionId") || !bytes.Contains(m["params"], directoryChoice) {
		return nil
	}
	n.refused.Store(nil)
	thrown := map[string]any{
		"type": "object", "subtype": "error", "className": "Error",
		"description": "Error: " + r.text + " Playwright does not send the files of a directory.",
	}
	return encode(Answer{ID: m["id"], SessionID: m["sessionId"], Result: map[string]any{
		"result":           thrown,
		"exceptionDetails": map[string]any{"exceptionId": 1, "text": "Uncaught", "lineNumber": 0, "columnNumber": 0, "exception": thrown},
	}})
}
