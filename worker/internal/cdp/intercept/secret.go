package intercept

import (
	"encoding/json"
	"slices"
)

// fillCall is a call of Svc.fillSecret.
type fillCall struct {
	answer Answer
	params json.RawMessage
}

// findTarget returns the call that asks the browser for the target of the session of a
// Svc.fillSecret. observe goes on with the answer.
func (n *Connection) findTarget(key string, m message) (forward, answer []byte) {
	if n.calls.FillSecret == nil {
		return nil, m.refuse("This browser has no secrets.")
	}
	n.await(key, awaitedCall{fill: &fillCall{Answer{ID: m["id"], SessionID: m["sessionId"]}, m["params"]}})
	m["method"] = encode("Target.getTargetInfo")
	delete(m, "params")
	return encode(m), nil
}

// fill fills a field of a target and answers when it is filled. It reports whether the
// client must not get the browser's answer, instead of which it gets that.
func (n *Connection) fill(call fillCall, target json.RawMessage) (hide bool) {
	var info struct{ TargetID, Type string }
	if json.Unmarshal(target, &info) != nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return true // the client cannot receive the answer
	}
	n.replies.Go(func() {
		answer := call.answer
		if slices.Contains([]string{"page", "iframe"}, info.Type) {
			result, err := n.calls.FillSecret(n.ctx, info.TargetID, call.params)
			if answer.Result = result; err != nil {
				answer.Result, answer.Error = nil, &Error{codeServer, describe(err)}
			}
		} else {
			answer.Error = &Error{codeServer, "Svc.fillSecret must be sent on the session of a page or of a frame."}
		}
		_ = n.reply(answer) // an error ends the connection, which its relay notices
	})
	return true
}
