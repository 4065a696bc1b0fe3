package intercept

import (
	"encoding/json"
	"slices"
)

// Behaviors of downloads. deny stays as the client wants it; allowAndName names downloads
// by their guid.
const (
	deny         = "deny"
	allowAndName = "allowAndName"
)

// setDownloads returns the message that makes the browser store downloads for the worker.
func (n *Connection) setDownloads(m, params message) (forward []byte) {
	if n.calls.CaptureDownloads == nil {
		return nil
	}
	n.mu.Lock()
	if n.captured == nil {
		n.captured = map[string]bool{}
	}
	n.captured[params.text("browserContextId")] = true
	n.mu.Unlock()
	switch behavior := params.text("behavior"); {
	case behavior == deny:
		return nil
	case n.calls.rules().Downloads().Denied:
		params["behavior"] = encode(deny)
	case slices.Contains([]string{"allow", allowAndName, "default"}, behavior):
		params["behavior"], params["downloadPath"] = encode(allowAndName), encode(n.calls.DownloadPath)
	default:
		return nil
	}
	m["params"] = encode(params)
	return encode(m)
}

// setPageDownloads answers a call that Chromium would apply to the context of a page,
// until the page closes. It knows no behavior that names downloads by their guid.
func (n *Connection) setPageDownloads(m, params message) (answer []byte) {
	if n.calls.CaptureDownloads == nil || params.text("behavior") == deny {
		return nil
	}
	n.calls.CaptureDownloads()
	return encode(Answer{ID: m["id"], SessionID: m["sessionId"], Result: message{}})
}

// chromedriver handles the commands of WebDriver BiDi in a page of the browser. The calls of
// that page reach the browser directly and replace the behavior of contexts.

// createUserContext captures the downloads of a new context, unless the client has denied
// those of all contexts.
func (n *Connection) createUserContext(key string) {
	if n.calls.CaptureDownloads != nil && !n.deniesDownloads {
		n.await(key, awaitedCall{})
	}
}

// setUserDownloads captures the downloads of contexts again after a command that sets
// another behavior than to deny them.
func (n *Connection) setUserDownloads(key string, params message) {
	var behavior message
	var contexts []string
	_, _ = json.Unmarshal(params["downloadBehavior"], &behavior), json.Unmarshal(params["userContexts"], &contexts)
	denied := behavior.text("type") == "denied"
	if contexts == nil {
		n.deniesDownloads = denied
	}
	if denied || n.calls.CaptureDownloads == nil {
		return
	}
	for i, id := range contexts {
		if id == "default" {
			contexts[i] = ""
		}
	}
	n.await(key, awaitedCall{captures: true, userContexts: contexts})
}
