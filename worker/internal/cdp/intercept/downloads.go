package intercept

import "slices"

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
