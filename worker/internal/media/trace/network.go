package trace

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

const (
	maxBodies     = 64 << 20    // bytes of the bodies of a trace
	retryInterval = time.Second // after requests were interrupted
)

// extensions are the extensions of resources, by type.
var extensions = map[string]string{
	"text/html": ".html", "text/css": ".css", "text/javascript": ".js", "application/javascript": ".js", "application/json": ".json", "text/plain": ".txt",
	"image/png": ".png", "image/jpeg": ".jpeg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg", "font/woff2": ".woff2",
}

// followRequests adds the requests of the browser until ctx ends, over a new connection whenever one has ended.
func (t *tracer) followRequests(ctx context.Context) {
	missed := func() { t.missed.Store(true) }
	options := har.Options{Secrets: t.w.secretTexts, KeepBody: t.keepsBody, Missed: missed}
	for connections := 0; ctx.Err() == nil; {
		if conn, err := t.Connect(ctx); err == nil {
			if connections++; connections > 1 {
				missed()
			}
			_ = har.Collect(ctx, conn, options, t.w.addRequest) // it ends if it was too slow, or by a message that is too long
			_ = conn.Close()
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}

// keepsBody reports whether there is room for a body.
func (t *tracer) keepsBody(bytes int64) bool { return t.bodies.Add(bytes) <= maxBodies }

// request returns the line of a request, and stores its body.
func (w *Writer) request(e har.Entry) object {
	content := e.Response.Content
	e.Response.Content.Text, e.Response.Content.Encoding = "", ""
	e.PageRef = pageID(e.TargetID)
	var snapshot object
	raw, err := json.Marshal(e)
	if err != nil || json.Unmarshal(raw, &snapshot) != nil {
		return object{} // cannot fail
	}
	snapshot["_monotonicTime"] = w.offset(e.StartedDateTime)
	if e.FrameID != "" {
		snapshot["_frameref"] = e.FrameID
	}
	if name := w.addBody(content); name != "" {
		if response, ok := snapshot["response"].(object); ok {
			if described, ok := response["content"].(object); ok {
				described["_sha1"] = name
			}
		}
	}
	return object{"type": "resource-snapshot", "snapshot": snapshot}
}

// addBody stores the body of a response and returns its name; "" without one.
func (w *Writer) addBody(c har.Content) (name string) {
	if c.Text == "" {
		return ""
	}
	body := []byte(c.Text)
	if c.Encoding == "base64" {
		var err error
		if body, err = base64.StdEncoding.DecodeString(c.Text); err != nil {
			return ""
		}
	}
	kind, _, _ := strings.Cut(c.MimeType, ";")
	extension := extensions[kind]
	if extension == "" {
		extension = ".dat"
	}
	return w.add(body, extension)
}
