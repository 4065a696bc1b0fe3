package intercept

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const codeInvalidRequest = -32600 // error code of CDP, as in JSON-RPC

// humanResult is the result of Svc.requestHuman.
type humanResult struct {
	Outcome handover.Outcome `json:"outcome"`
	Seconds float64          `json:"seconds"`
	Note    string           `json:"note,omitempty"`
}

// HandleHandover handles a call about a handover, for which HandleMessage has returned
// nothing.
func (n *Connection) HandleHandover(m wsframe.Message) { _ = n.answerHandover(m.Payload()) }

// answerHandover answers a call about a handover, at once or when the handover ends.
func (n *Connection) answerHandover(raw []byte) error {
	var m message
	if len(raw) > MaxWorkerMessage {
		return n.reply(Answer{Error: &Error{codeInvalidRequest, "The message is too long."}})
	}
	if json.Unmarshal(raw, &m) != nil {
		return n.reply(Answer{Error: &Error{codeInvalidRequest, "The message is not valid."}})
	}
	answer := Answer{ID: m["id"], SessionID: m["sessionId"]}
	if _, ok := m.callKey(); !ok {
		answer.ID, answer.Error = nil, &Error{codeInvalidRequest, "Message must have integer 'id' property"}
		return n.reply(answer)
	}
	err := error(handover.ErrEnded)
	switch {
	case n.calls == nil:
	case m.text("method") == cancelHuman:
		answer.Result = struct{}{}
		_, err = n.calls.handovers.Cancel()
	default:
		var request handover.Request
		if request, err = readHumanRequest(m["params"]); err == nil {
			if err = n.requestHuman(request, answer); err == nil {
				return nil
			}
		}
	}
	if err != nil {
		answer.Result, answer.Error = nil, &Error{codeServer, describe(err)}
	}
	return n.reply(answer)
}

// readHumanRequest reads the parameters of Svc.requestHuman.
func readHumanRequest(raw json.RawMessage) (handover.Request, error) {
	var params struct {
		Reason         string `json:"reason"`
		TimeoutSeconds *int64 `json:"timeoutSeconds"`
	}
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&params); err != nil {
		return handover.Request{}, fault.Field("params", "must be {reason, timeoutSeconds}: a text and, optionally, an integer")
	}
	request := handover.Request{Reason: params.Reason, Timeout: handover.DefaultTimeout}
	if params.TimeoutSeconds != nil {
		request.Timeout = handover.Seconds(*params.TimeoutSeconds)
	}
	return request, nil
}

// requestHuman begins a handover. The answer is sent when it ends.
func (n *Connection) requestHuman(r handover.Request, answer Answer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil // the client cannot receive the answer
	}
	active, err := n.calls.handovers.Begin(r)
	if err != nil {
		return err
	}
	n.requested = active
	n.replies.Go(func() {
		<-active.Ended()
		n.mu.Lock()
		closed := n.closed
		if n.requested == active {
			n.requested = nil
		}
		n.mu.Unlock()
		if closed {
			return
		}
		if result, _ := active.Result(); result.Outcome == handover.BrowserEnded {
			answer.Error = &Error{codeServer, describe(handover.ErrEnded)}
		} else {
			answer.Result = humanResult{result.Outcome, result.Seconds(), result.Note}
		}
		_ = n.reply(answer) // an error ends the connection, which its relay notices
	})
	return nil
}

func (n *Connection) reply(answer Answer) error {
	if n.Reply == nil {
		return nil
	}
	return n.send(encode(answer))
}

// describe returns the text of a fault with its details.
func describe(err error) string {
	f := fault.From(err)
	text := f.Message
	for _, d := range f.PublicDetails() {
		text += fmt.Sprintf(" %s %s.", d.Field, d.Message)
	}
	return text
}
