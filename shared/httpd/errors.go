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

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// statusClientClosedRequest is logged (and written, though nobody reads it) when the
// client left before its answer was ready.
const statusClientClosedRequest = 499

// failure is the failure envelope (specification 2.1). Success has no value but
// false: it is the discriminant.
type failure struct {
	Success bool         `json:"success"`
	Error   failureError `json:"error"`
}

type failureError struct {
	Code    fault.Code     `json:"code"`
	Message string         `json:"message"`
	Details []fault.Detail `json:"details,omitempty"`
}

// handleError is the only place where an error becomes an answer. It writes
// nothing on a response that has begun or a connection that was taken over.
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
		h.Del(name) // what a handler prepared for the answer that didn't come
	}
	if f.RetryAfter > 0 {
		seconds := max(1, int64(math.Ceil(f.RetryAfter.Seconds())))
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
	_, _ = res.Write(body) // a failed write has no one to be told
}

// failureDetails are those of the failure, where it has none those that the request
// tells: which method was refused and which are allowed.
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

// classify finds the fault in err, or makes the one that fits.
func classify(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Oversized(err, tooLarge.Limit)
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		return fromEcho(he, err)
	}
	return fault.From(err)
}

// fromEcho gives Echo's own errors a public message of ours: theirs quote
// decoders and Go types.
func fromEcho(he *echo.HTTPError, err error) *fault.Error {
	switch he.Code {
	case http.StatusNotFound:
		return fault.Wrap(err, fault.NotFound, "There is nothing at this path.")
	case http.StatusMethodNotAllowed:
		return fault.Wrap(err, fault.MethodNotAllowed, "This path does not answer to this method.")
	case http.StatusRequestEntityTooLarge:
		return fault.Wrap(err, fault.TooLarge, "The request body is too large.")
	case http.StatusUnsupportedMediaType:
		return fault.Wrap(err, fault.UnsupportedMediaType, "The request body has the wrong content type.")
	case http.StatusRequestedRangeNotSatisfiable:
		return fault.Wrap(err, fault.RangeNotSatisfiable, "The range lies outside of what is there.")
	case http.StatusUnauthorized:
		return fault.Wrap(err, fault.Unauthenticated, "The request is not authenticated.")
	case http.StatusForbidden:
		return fault.Wrap(err, fault.Forbidden, "This is not allowed.")
	case http.StatusConflict:
		return fault.Wrap(err, fault.Conflict, "The request conflicts with the present state.")
	case http.StatusTooManyRequests:
		return fault.Wrap(err, fault.RateLimited, "Too many requests.")
	case http.StatusBadGateway:
		return fault.Wrap(err, fault.BadGateway, "A service this depends on gave no usable answer.")
	case http.StatusServiceUnavailable:
		return fault.Wrap(err, fault.Unavailable, "A service this depends on is not available.")
	case http.StatusGatewayTimeout:
		return fault.Wrap(err, fault.Timeout, "A service this depends on did not answer in time.")
	}
	if he.Code >= 400 && he.Code < 500 {
		return fault.Wrap(err, fault.Validation, "The request is not valid.")
	}
	return fault.From(err)
}

// clientDisconnected reports whether a failure of ours is only the echo of a client
// that hung up: whatever the handler was waiting for was cancelled with it.
func clientDisconnected(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) &&
		classify(err).Kind.Status() >= http.StatusInternalServerError
}

// panicError is a panic on its way to the error handler: Internal to the
// client, with its stack to the log.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recoverPanic calls next and turns a panic into an error. http.ErrAbortHandler
// passes: it is how a proxy says that a response must not look complete.
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
