package mcp

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// maxRefusal limits the text of a refusal, in bytes.
const maxRefusal = 1 << 10

// refusalWriter passes answers to the client and keeps refusals in plain text for fault.
type refusalWriter struct {
	http.ResponseWriter
	status int // of a refusal
	text   bytes.Buffer
}

// Unwrap lets http.ResponseController reach the connection.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *refusalWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// WriteHeader implements http.ResponseWriter.
func (w *refusalWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *refusalWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(p)
	}
	w.text.Write(p[:min(len(p), max(0, maxRefusal-w.text.Len()))])
	return len(p), nil
}

// fault returns the refusal as an error, nil if there was none.
func (w *refusalWriter) fault() error {
	text := strings.TrimSpace(w.text.String())
	switch w.status {
	case 0:
		return nil
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "No such MCP session: it has ended. Begin a new one.")
	case http.StatusMethodNotAllowed:
		return echo.ErrMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return fault.Oversized(nil, maxBody)
	case http.StatusUnsupportedMediaType:
		return fault.New(fault.UnsupportedMediaType, "The body must be application/json, and Content-Type must match.", fault.Detail{
			Field: "contentType", Code: fault.InvalidEnumValue, Message: "must be application/json", Constraint: map[string]any{"allowed": []string{"application/json"}},
		})
	case http.StatusConflict:
		return fault.New(fault.Conflict, text)
	case http.StatusForbidden:
		return fault.New(fault.Forbidden, text)
	case http.StatusBadRequest:
		return fault.New(fault.Validation, "This is not a valid MCP request.", fault.Detail{
			Field: "request", Code: fault.Custom, Message: strings.TrimPrefix(text, "Bad Request: "),
		})
	}
	return fault.New(fault.Internal, "Something went wrong on our side.")
}
