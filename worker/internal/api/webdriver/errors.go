package webdriver

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// commandError is an error of the WebDriver protocol with its cause.
type commandError struct {
	status int
	name   string // the error code of WebDriver
	cause  *fault.Error
}

func (e *commandError) Error() string { return e.name + ": " + e.cause.Error() }
func (e *commandError) Unwrap() error { return e.cause }

// Error codes of WebDriver.
const (
	invalidArgument = "invalid argument"
	invalidSession  = "invalid session id"
	notCreated      = "session not created"
	unknownError    = "unknown error"
	unableToUpload  = "unable to set file" // not in the standard
)

func errNoSession() error {
	return &commandError{http.StatusNotFound, invalidSession, fault.New(fault.NotFound, "No such session: the id is wrong, or the browser has ended.")}
}

// refusedLaunch returns the error for a session that was not created.
func refusedLaunch(err error) error {
	f := fault.From(err)
	switch f.Kind {
	case fault.Validation:
		return &commandError{http.StatusBadRequest, invalidArgument, f}
	case fault.Unauthenticated: // clients that send credentials only on request need the status
		return &commandError{http.StatusUnauthorized, notCreated, f}
	}
	return &commandError{http.StatusInternalServerError, notCreated, f}
}

// errorBody is the body of an error (WebDriver, 6.6).
type errorBody struct {
	Error      string    `json:"error"`
	Message    string    `json:"message"`
	Stacktrace string    `json:"stacktrace"`
	Data       errorData `json:"data"`
}

// errorData is the error as other operations of the worker return it.
type errorData struct {
	Code    fault.Code     `json:"code"`
	Details []fault.Detail `json:"details,omitempty"`
}

// writeError answers a command with an error, unless it was answered.
func writeError(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	f, ok := errors.AsType[*commandError](err)
	if !ok {
		cause := fault.From(err)
		f = &commandError{cause.Kind.Status(), unknownError, cause}
	}
	h := c.Response().Header()
	if f.status == http.StatusUnauthorized {
		h.Add(echo.HeaderWWWAuthenticate, `Basic realm="worker or organization key", charset="UTF-8"`)
		h.Add(echo.HeaderWWWAuthenticate, "Bearer")
	}
	if after := retryAfter(f.cause); after > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(max(1, int64(math.Ceil(after.Seconds()))), 10))
	}
	details := f.cause.PublicDetails()
	message := f.cause.Message
	for _, detail := range details { // clients show nothing but the message
		message += " " + detail.Field + " " + detail.Message + "."
	}
	_ = write(c, f.status, errorBody{Error: f.name, Message: message, Data: errorData{f.cause.Kind.Code(), details}})
}

// retryAfter returns when a refused launch can succeed; 0 if a retry does not help.
func retryAfter(f *fault.Error) time.Duration {
	if f.RetryAfter == 0 && (f.Kind == fault.Unavailable || f.Kind == fault.PaymentRequired) {
		return 5 * time.Second
	}
	return f.RetryAfter
}

func writeValue(c echo.Context, value any) error { return write(c, http.StatusOK, value) }

// write answers a command (WebDriver, 6.5).
func write(c echo.Context, status int, value any) error {
	raw, err := json.Marshal(map[string]any{"value": value})
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.Blob(status, "application/json; charset=utf-8", raw)
}
