package registry

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// codedError is a fault with an error code of the OCI Distribution specification.
type codedError struct {
	fault *fault.Error
	code  string
}

// Error implements error.
func (e codedError) Error() string { return e.fault.Error() }

// Unwrap returns the fault.
func (e codedError) Unwrap() error { return e.fault }

func coded(code string, kind fault.Kind, message string) error {
	return codedError{fault.New(kind, message), code}
}

func errNameUnknown() error {
	return coded("NAME_UNKNOWN", fault.NotFound,
		"The repository does not exist, or the organization key in its path is invalid, revoked or expired.")
}

// errReference is the error for a malformed reference.
func errReference(t target) error {
	if t.kind == manifests && !strings.Contains(t.reference, ":") {
		return errMissing(t)
	}
	return coded("DIGEST_INVALID", fault.Validation, "The digest is not well-formed: it must be sha256: and 64, or sha512: and 128, lowercase hexadecimal digits.")
}

// errMissing is the error for content that the upstream does not have.
func errMissing(t target) error {
	switch t.kind {
	case manifests:
		return coded("MANIFEST_UNKNOWN", fault.NotFound, "The image has no such tag or manifest.")
	case blobs:
		return coded("BLOB_UNKNOWN", fault.NotFound, "The image has no such blob.")
	}
	return errNameUnknown() // the upstream has no such repository
}

// codes are the OCI error codes of faults without one of their own.
var codes = map[fault.Kind]string{
	fault.MethodNotAllowed: "UNSUPPORTED", fault.RateLimited: "TOOMANYREQUESTS", fault.Unavailable: "UNAVAILABLE",
	fault.RangeNotSatisfiable: "BLOB_UNKNOWN",
}

// errorHandler returns the error handler of the gate: errors of the protocol have its
// format, and the others the failure envelope that envelope writes.
func errorHandler(envelope echo.HTTPErrorHandler) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		res := c.Response()
		if !strings.HasPrefix(c.Request().URL.Path, "/v2") {
			envelope(err, c)
			return
		}
		if res.Committed {
			return
		}
		f, code := protocolError(err)
		h := res.Header()
		if f.RetryAfter > 0 {
			h.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
		}
		body, _ := json.Marshal(map[string]any{"errors": []any{map[string]string{"code": code, "message": f.Message}}}) // only strings
		h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
		res.WriteHeader(f.Kind.Status())
		if c.Request().Method != http.MethodHead {
			_, _ = res.Write(body) // the client is gone if this fails
		}
	}
}

// protocolError returns the public part of err and its OCI error code.
func protocolError(err error) (*fault.Error, string) {
	if own, ok := errors.AsType[codedError](err); ok {
		return own.fault, own.code
	}
	f := fault.From(err)
	if code, ok := codes[f.Kind]; ok {
		return f, code
	}
	return f, "UNKNOWN"
}
