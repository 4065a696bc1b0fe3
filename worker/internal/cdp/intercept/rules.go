package intercept

import (
	"encoding/json"
	"net/url"

	"github.com/browser-svc/svc/shared/netrules"
)

// With rules that concern the calls of clients, every message is decoded: another method
// could follow the first one, or come late. Rules for requests need no calls: the worker's
// own connection enforces them.

// Calls that rules can refuse, in addition to others that are intercepted.
const (
	navigatePage = "Page.navigate"
	continueAs   = "Fetch.continueRequest" // with another URL, for an interception of the browser target
	dragFiles    = "Input.dispatchDragEvent"
	openDevTools = "Target.openDevTools"
)

// maxExamined limits, in bytes, the messages of clients if every one is decoded. A longer
// one ends the connection.
const maxExamined = 64 << 20

// rules returns the rules of the launch; nil for none.
func (c *Calls) rules() *netrules.Policy {
	if c == nil || c.Rules == nil {
		return nil
	}
	return c.Rules()
}

// examinesAll reports whether rules concern the calls of clients.
func (c *Calls) examinesAll() bool {
	r := c.rules()
	return r.FiltersNavigation() || r.Uploads().Denied || r.Downloads().Denied
}

// refusal returns the text of the error for a call that a rule denies, or nothing.
func (c *Calls) refusal(method string, params message) string {
	var v netrules.Verdict
	switch rules := c.rules(); method {
	case createTarget, navigatePage:
		v = rules.NavigateOther(params.text("url"))
	case continueAs:
		v = rules.Navigate(params.text("url"))
	case openDevTools:
		v = rules.NavigateOther("devtools:")
	case setFiles:
		v = rules.Uploads()
	case dragFiles:
		var data struct{ Files []json.RawMessage }
		if json.Unmarshal(params["data"], &data) != nil || len(data.Files) > 0 {
			v = rules.Uploads()
		}
	case sendToTarget:
		var m, nested message
		if json.Unmarshal([]byte(params.text("message")), &m) != nil || m["params"] != nil && json.Unmarshal(m["params"], &nested) != nil {
			if !c.examinesAll() {
				return "" // the browser refuses it
			}
			return notUnderstood
		}
		return c.refusal(m.text("method"), nested)
	}
	if !v.Denied {
		return ""
	}
	return method + " is denied by " + v.String() + "."
}

// refuseNested returns the answer to a call in a text, whose answer the browser would also
// send in a text, if that call is intercepted.
func (m message) refuseNested(params message) (answer []byte) {
	var nested message
	_ = json.Unmarshal([]byte(params.text("message")), &nested) // the browser refuses another text
	switch method := nested.text("method"); recipientOf(method) {
	case forBrowser, evaluation:
		return nil
	default:
		return m.refuse(method + " is not possible with " + sendToTarget + ": attach to the target with flatten: true.")
	}
}

// RefusePage returns why the rules deny the page that /json/new opens with a query, or
// nothing.
func (c *Calls) RefusePage(query string) string {
	page, err := url.PathUnescape(query)
	if err != nil {
		page = query
	}
	if v := c.rules().NavigateOther(page); v.Denied {
		return "The page is denied by " + v.String() + "."
	}
	return ""
}

// notUnderstood is the error for a message that Chromium may understand in another way.
const notUnderstood = "The message is not a call with an integer id, or is too long: the rules of this launch cannot be applied to it."

// refuseUnclear returns the answer to a message that is not understood, or nil if it is for
// the browser to refuse.
func (n *Connection) refuseUnclear() (answer []byte) {
	if !n.calls.examinesAll() {
		return nil
	}
	return message{}.refuse(notUnderstood)
}

// maxDecoded returns the length, in bytes, up to which messages are decoded.
func (n *Connection) maxDecoded() int {
	if n.calls.examinesAll() {
		return maxExamined
	}
	return maxHandled
}
