package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// statusClientClosedRequest is logged when the client disconnected before the
// response was ready.
const statusClientClosedRequest = 499

// failure is the failure envelope (specification 2.1). Success is always false;
// clients use it as the discriminator.
type failure struct {
	Success bool         `json:"success"`
	Error   failureError `json:"error"`
}

type failureError struct {
	Code    fault.Code     `json:"code"`
	Message string         `json:"message"`
	Details []fault.Detail `json:"details,omitempty"`
}

// handleError writes the response for an error. It does nothing if the response
// has started or the connection was hijacked.
func handleError(err error, c echo.Context) {
	res := c.Response()
	if err == nil || res.Committed {
		return
	}
	f := classify(err)
	status := f.Kind.Status()
	if clientDisconnected(c.Request(), err) {
		status = statusClientClosedRequest
	}
	h := res.Header()
	h.Set("Cache-Control", "no-store")
	for _, name := range []string{"ETag", "Last-Modified", "Content-Length", "Content-Encoding", "Content-Disposition"} {
		h.Del(name) // set by the handler for the response that was not sent
	}
	if after := retryAfter(f); after > 0 {
		seconds := max(1, int64(math.Ceil(after.Seconds())))
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(seconds, 10))
	}
	if f.Allow != "" {
		h.Set(echo.HeaderAllow, f.Allow)
	}
	h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	body := encodeFailure(f, failureDetails(f, c.Request(), h.Get(echo.HeaderAllow)))
	if c.Request().Method == http.MethodHead {
		h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
		res.WriteHeader(status)
		return
	}
	res.WriteHeader(status)
	_, _ = res.Write(body) // the client is gone if this fails
}

// failureDetails returns the public details of the failure. For a method that is
// not allowed, it adds the received method and the allowed ones.
func failureDetails(f *fault.Error, r *http.Request, allow string) []fault.Detail {
	all := f.PublicDetails()
	if f.Kind == fault.MethodNotAllowed && len(f.Details) == 0 {
		all[0].Received = r.Method
		if allow != "" {
			all[0].Message = "must be one of " + allow
			all[0].Constraint = map[string]any{"allowed": strings.Split(allow, ", ")}
		}
	}
	return all
}

func encodeFailure(f *fault.Error, all []fault.Detail) []byte {
	body := failure{Error: failureError{Code: f.Kind.Code(), Message: f.Message, Details: all}}
	encoded, err := json.Marshal(body)
	if err != nil { // a detail that JSON can't express, such as NaN
		body.Error.Details = make([]fault.Detail, len(all))
		for i, d := range all {
			body.Error.Details[i] = fault.Detail{Field: d.Field, Code: d.Code, Message: d.Message}
		}
		encoded, _ = json.Marshal(body)
	}
	return append(encoded, '\n')
}

// classify returns the fault in err, or converts err to one.
func classify(err error) *fault.Error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return fault.From(err)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Oversized(err, tooLarge.Limit)
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		return fromEcho(he, err)
	}
	return fault.From(err)
}

// fromEcho converts Echo's errors. Their messages quote decoders and Go types,
// so they are replaced.
func fromEcho(he *echo.HTTPError, err error) *fault.Error {
	switch he.Code {
	case http.StatusNotFound:
		return fault.Wrap(err, fault.NotFound, "No operation exists at this path.")
	case http.StatusMethodNotAllowed:
		return fault.Wrap(err, fault.MethodNotAllowed, "This path does not support this method.")
	case http.StatusRequestEntityTooLarge:
		return fault.Wrap(err, fault.TooLarge, "The request body is too large.")
	case http.StatusUnsupportedMediaType:
		return fault.Wrap(err, fault.UnsupportedMediaType, "The request body has the wrong content type.")
	case http.StatusRequestedRangeNotSatisfiable:
		return fault.Wrap(err, fault.RangeNotSatisfiable, "The requested range is outside the content.")
	case http.StatusUnauthorized:
		return fault.Wrap(err, fault.Unauthenticated, "The request is not authenticated.")
	case http.StatusForbidden:
		return fault.Wrap(err, fault.Forbidden, "This request is not allowed.")
	case http.StatusConflict:
		return fault.Wrap(err, fault.Conflict, "The request conflicts with the current state of the resource.")
	case http.StatusTooManyRequests:
		return fault.Wrap(err, fault.RateLimited, "Too many requests.")
	case http.StatusBadGateway:
		return fault.Wrap(err, fault.BadGateway, "A required service returned an invalid response.")
	case http.StatusServiceUnavailable:
		return fault.Wrap(err, fault.Unavailable, "A required service is not available.")
	case http.StatusGatewayTimeout:
		return fault.Wrap(err, fault.Timeout, "A required service did not respond in time.")
	}
	if he.Code >= 400 && he.Code < 500 {
		return fault.Wrap(err, fault.Validation, "The request is not valid.")
	}
	return fault.From(err)
}

// clientDisconnected reports whether a server error was caused by the client's
// disconnect, which cancels the request context.
func clientDisconnected(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) &&
		classify(err).Kind.Status() >= http.StatusInternalServerError
}

// panicError is a recovered panic. The client gets an internal error; the stack
// is logged.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recoverPanic calls next and converts a panic to an error. It does not recover
// http.ErrAbortHandler, with which a proxy aborts an incomplete response.
func recoverPanic(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if cause, isError := value.(error); isError && errors.Is(cause, http.ErrAbortHandler) {
			panic(value)
		}
		err = &panicError{value: value, stack: string(debug.Stack())}
	}()
	return next(c)
}

// defaultRetryAfter is the Retry-After of refused launches and of outages that set none.
const defaultRetryAfter = 5 * time.Second

// retryAfter returns when a client should retry; 0 if retrying does not help.
func retryAfter(f *fault.Error) time.Duration {
	if f.RetryAfter == 0 && (f.Kind == fault.Unavailable || f.Kind == fault.PaymentRequired) {
		return defaultRetryAfter
	}
	return f.RetryAfter
}
