package intercept

import (
	"context"
	"encoding/json"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// targetCall is a call that the worker carries out for a target, instead of the browser.
type targetCall struct {
	answer Answer
	// carryOut gets the id and the type of the target. Its errors are *fault.Error.
	carryOut func(ctx context.Context, targetID, kind string) (result any, err error)
	end      func() // called when the call is carried out, or the browser has refused the target; can be nil
}

// exposeTimeout limits how long Target.exposeDevToolsProtocol holds its connection.
const exposeTimeout = 10 * time.Second

var errNoPage = fault.New(fault.Conflict, "Svc.fillSecret must be sent on the session of a page or of a frame.")

// fillSecret carries out Svc.fillSecret for the target of its session.
func (n *Connection) fillSecret(key string, m message) (forward, answer []byte) {
	if n.calls.FillSecret == nil {
		return nil, m.refuse("This browser has no secrets.")
	}
	params := m["params"]
	return n.findTarget(key, m, nil, nil, func(ctx context.Context, targetID, kind string) (any, error) {
		if kind != "page" && kind != "iframe" {
			return nil, errNoPage
		}
		return n.calls.FillSecret(ctx, targetID, params)
	}), nil
}

// exposeProtocol carries out Target.exposeDevToolsProtocol, so that the calls of the page
// are those of a client. It holds the later messages of this connection until then, because
// chromedriver does not wait for the answer.
func (n *Connection) exposeProtocol(key string, m, params message) (forward []byte) {
	if n.calls.ExposeProtocol == nil {
		return nil
	}
	binding := "cdp" // Chromium's default
	if params["bindingName"] != nil {
		binding = params.text("bindingName")
	}
	exposing, end := context.WithTimeout(n.ctx, exposeTimeout)
	n.exposing.Store(&exposing)
	return n.findTarget(key, m, message{"targetId": params["targetId"]}, end, func(ctx context.Context, targetID, _ string) (any, error) {
		return struct{}{}, n.calls.ExposeProtocol(ctx, targetID, binding)
	})
}

// findTarget returns the call that asks the browser for a target, without parameters for
// that of the session. observe goes on with the answer.
func (n *Connection) findTarget(
	key string, m, params message, end func(), carryOut func(ctx context.Context, targetID, kind string) (any, error),
) (forward []byte) {
	n.await(key, awaitedCall{target: &targetCall{Answer{ID: m["id"], SessionID: m["sessionId"]}, carryOut, end}})
	m["method"] = encode("Target.getTargetInfo")
	if delete(m, "params"); params != nil {
		m["params"] = encode(params)
	}
	return encode(m)
}

// carryOut carries out a call for a target and answers it then. It reports whether the
// client must not get the browser's answer, instead of which it gets that.
func (n *Connection) carryOut(call targetCall, target json.RawMessage) (hide bool) {
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
		if call.end != nil {
			defer call.end()
		}
		answer := call.answer
		result, err := call.carryOut(n.ctx, info.TargetID, info.Type)
		if answer.Result = result; err != nil {
			answer.Result, answer.Error = nil, &Error{codeServer, describe(err)}
		}
		_ = n.reply(answer) // an error ends the connection, which its relay notices
	})
	return true
}
