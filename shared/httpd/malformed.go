package httpd

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// plainErrorHead follows the status line in net/http's response to a malformed
// request. A text follows it. The response is a single write.
const plainErrorHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// malformedResponder writes the failure envelope for requests that net/http
// refuses before a handler runs, for example those with an invalid escape in the
// path.
type malformedResponder struct {
	logger    *slog.Logger
	document  Document
	maxHeader int
}

// replaceRefusal returns the response that replaces p, or nil if p is not a
// refusal of net/http.
func (m malformedResponder) replaceRefusal(p []byte, client net.Addr) []byte {
	line, text, found := bytes.Cut(p, []byte(plainErrorHead))
	status, found2 := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !found || !found2 || len(status) < 3 || bytes.ContainsAny(text, "\r\n") {
		return nil
	}
	code, err := strconv.Atoi(string(status[:3]))
	if err != nil || code < http.StatusBadRequest {
		return nil
	}
	f := m.fault(code, string(text))
	id := uuid.Must(uuid.NewV7()).String()
	address, _, _ := net.SplitHostPort(client.String())
	m.logger.LogAttrs(context.Background(), slog.LevelInfo, "request",
		slog.Int("status", code), slog.String("requestId", id), slog.String("remoteIp", address),
		slog.String("code", string(f.Kind.Code())), slog.String("error", f.Error()))
	return m.encode(code, id, encodeFailure(f, f.PublicDetails()))
}

// fault converts the status and the text of net/http's response.
func (m malformedResponder) fault(status int, text string) *fault.Error {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return fault.New(fault.Validation, "The headers of the request are too large.", fault.Detail{
			Field: "headers", Code: fault.TooLong, Message: "must be at most " + strconv.Itoa(m.maxHeader) + " bytes long",
			Constraint: map[string]any{"max": m.maxHeader},
		})
	case http.StatusNotImplemented:
		return fault.New(fault.Validation, "The transfer encoding of the request is not supported.", fault.Detail{
			Field: "Transfer-Encoding", Code: fault.InvalidEnumValue, Message: "must be chunked",
			Constraint: map[string]any{"allowed": []string{"chunked"}},
		})
	}
	message := "is not well-formed: check the escapes of its path and its headers"
	if _, reason, ok := strings.Cut(text, ": "); ok {
		message = reason
	}
	return fault.New(fault.Validation, "The request is not well-formed HTTP.", fault.Detail{
		Field: "request", Code: fault.InvalidFormat, Message: message,
	})
}

func (m malformedResponder) encode(status int, requestID string, body []byte) []byte {
	h := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"},
		"Date": {time.Now().UTC().Format(http.TimeFormat)},
	}
	setDefaultHeaders(h, requestID)
	if m.document != nil {
		h[contractHeader] = []string{m.document.ContractVersion()}
	}
	var out bytes.Buffer
	out.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	_ = h.Write(&out) // a bytes.Buffer does not fail
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}
