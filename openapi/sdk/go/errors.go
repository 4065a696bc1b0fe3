package svc

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
)

// Error is an answer with an error. Branch on Code.
type Error struct {
	Status     int
	Code       string // such as RESOURCE_NOT_FOUND; empty if the answer does not come from svc
	Message    string
	Details    []sharedapi.ErrorDetail // one for each field that is wrong
	RequestID  string                  // for the log of the server
	RetryAfter time.Duration
}

// Error returns the message with its details.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, detail := range e.Details {
		fmt.Fprintf(&b, " (%s: %s)", detail.Field, detail.Message)
	}
	if e.Code == "" {
		fmt.Fprintf(&b, " (status %d)", e.Status)
	}
	return b.String()
}

// maxError is the size of the longest error that is read.
const maxError = 1 << 20

// ReadError reads and closes an answer that is not a success, such as one of the generated client in gen/cloudapi.
func ReadError(answer *http.Response) *Error {
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // an incomplete text is no envelope
	e := &Error{Status: answer.StatusCode, RequestID: answer.Header.Get("X-Request-Id")}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	e.RetryAfter = time.Duration(seconds) * time.Second
	var envelope sharedapi.ErrorResponse
	switch {
	case json.Unmarshal(text, &envelope) == nil && envelope.Error.Code != "":
		e.Code, e.Message = string(envelope.Error.Code), envelope.Error.Message
		if envelope.Error.Details != nil {
			e.Details = *envelope.Error.Details
		}
	case answer.StatusCode == http.StatusNotFound && answer.Header.Get("X-Svc-Contract") != "":
		e.Code, e.Message = string(sharedapi.ErrorCodeRESOURCENOTFOUND), "No such browser: it has ended, or the key is not the worker key."
	case answer.Header.Get("Location") != "":
		e.Message = "The server redirects to " + answer.Header.Get("Location") + ": use that address."
	default:
		e.Message = fmt.Sprintf("%s %s was refused by a server that is not svc", answer.Request.Method, answer.Request.URL.Path)
	}
	return e
}
