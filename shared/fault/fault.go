// Package fault is the one error type that crosses a package boundary on its
// way to a client, and the one table that turns it into a status and a code.
//
// The public message and details are written for the caller; the wrapped cause
// is written for the log. The two never mix: Error reports both, the envelope
// only the public part.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Code is the error.code of the failure envelope: one of eight values
// (specification 7.1; the last two names are fixed by this project).
type Code string

// The eight codes.
const (
	CodeValidation      Code = "VALIDATION_ERROR"
	CodeAuthentication  Code = "AUTHENTICATION_ERROR"
	CodeAuthorization   Code = "AUTHORIZATION_ERROR"
	CodeNotFound        Code = "RESOURCE_NOT_FOUND"
	CodeConflict        Code = "RESOURCE_CONFLICT"
	CodeRateLimit       Code = "RATE_LIMIT_EXCEEDED"
	CodeExternalService Code = "EXTERNAL_SERVICE_ERROR"
	CodeInternal        Code = "INTERNAL_ERROR"
)

// Kind says what went wrong; it decides the status and the code.
type Kind int

// The kinds. The zero value is Internal: an error nobody classified is ours.
const (
	Internal Kind = iota
	Validation
	MethodNotAllowed
	TooLarge
	UnsupportedMediaType
	RangeNotSatisfiable // of a download
	PreconditionFailed  // of a download
	Unauthenticated
	PaymentRequired // a launch refused by the license (specification 7.3)
	Forbidden
	NotFound
	NotInstalled // an uninstalled browser version (specification 4.3)
	Conflict
	RateLimited
	BadGateway    // an outside service answered with a refusal or nonsense
	Unavailable   // an outside service could not be reached
	Timeout       // an outside service did not answer in time
	OwnKeyRefused // an outside service refuses this service's own credential, or there is none: only the operator can change that
)

type kindResponse struct {
	status int
	code   Code
}

// kindResponses is the only place that knows which kind has which status and code.
var kindResponses = map[Kind]kindResponse{
	Internal:             {http.StatusInternalServerError, CodeInternal},
	Validation:           {http.StatusBadRequest, CodeValidation},
	MethodNotAllowed:     {http.StatusMethodNotAllowed, CodeValidation},
	TooLarge:             {http.StatusRequestEntityTooLarge, CodeValidation},
	UnsupportedMediaType: {http.StatusUnsupportedMediaType, CodeValidation},
	RangeNotSatisfiable:  {http.StatusRequestedRangeNotSatisfiable, CodeValidation},
	PreconditionFailed:   {http.StatusPreconditionFailed, CodeConflict},
	Unauthenticated:      {http.StatusUnauthorized, CodeAuthentication},
	PaymentRequired:      {http.StatusPaymentRequired, CodeAuthorization},
	Forbidden:            {http.StatusForbidden, CodeAuthorization},
	NotFound:             {http.StatusNotFound, CodeNotFound},
	NotInstalled:         {http.StatusBadRequest, CodeNotFound},
	Conflict:             {http.StatusConflict, CodeConflict},
	RateLimited:          {http.StatusTooManyRequests, CodeRateLimit},
	BadGateway:           {http.StatusBadGateway, CodeExternalService},
	Unavailable:          {http.StatusServiceUnavailable, CodeExternalService},
	Timeout:              {http.StatusGatewayTimeout, CodeExternalService},
	OwnKeyRefused:        {http.StatusServiceUnavailable, CodeAuthentication},
}

// Status is the HTTP status of the kind.
func (k Kind) Status() int { return kindResponses[k].status }

// Code is the envelope code of the kind.
func (k Kind) Code() Code { return kindResponses[k].code }

// The field-level codes of a Detail (specification 7.2).
const (
	InvalidType      = "INVALID_TYPE"
	InvalidFormat    = "INVALID_FORMAT"
	TooShort         = "TOO_SHORT"
	TooLong          = "TOO_LONG"
	InvalidPattern   = "INVALID_PATTERN"
	TooSmall         = "TOO_SMALL"
	TooBig           = "TOO_BIG"
	NotInteger       = "NOT_INTEGER"
	ArrayTooShort    = "ARRAY_TOO_SHORT"
	ArrayTooLong     = "ARRAY_TOO_LONG"
	InvalidEnumValue = "INVALID_ENUM_VALUE"
	InvalidUnion     = "INVALID_UNION"
	Required         = "REQUIRED"
	UnrecognizedKey  = "UNRECOGNIZED_KEY"
	Custom           = "CUSTOM"
	ResourceNotFound = "RESOURCE_NOT_FOUND"
)

// Detail is one entry of error.details (specification 2.2). Received is the
// value as the caller sent it, up to MaxReceived characters, and is left out for a
// secret; Constraint holds
// the bound that was broken.
type Detail struct {
	Field      string         `json:"field"`
	Code       string         `json:"code"`
	Message    string         `json:"message"`
	Received   any            `json:"received,omitempty"`
	Constraint map[string]any `json:"constraint,omitempty"`
}

// Error is a failure on its way to a client.
type Error struct {
	Kind       Kind
	Message    string        // public
	Details    []Detail      // public
	RetryAfter time.Duration // sent as Retry-After when positive
	Allow      string        // sent as Allow with MethodNotAllowed
	cause      error         // for the log only
}

// New returns an Error of that kind with a public message.
func New(kind Kind, message string, details ...Detail) *Error {
	return &Error{Kind: kind, Message: message, Details: details}
}

// Wrap returns an Error of that kind with a public message and, for the log,
// the cause. A nil cause is allowed.
func Wrap(cause error, kind Kind, message string, details ...Detail) *Error {
	return &Error{Kind: kind, Message: message, Details: details, cause: cause}
}

// Invalid returns a Validation error with these details.
func Invalid(details ...Detail) *Error {
	return New(Validation, "The request is not valid.", details...)
}

// Field returns a Validation error about one field, code CUSTOM.
func Field(field, message string) *Error {
	return Invalid(Detail{Field: field, Code: Custom, Message: message})
}

// Oversized returns a TooLarge error for a request body of more than limit bytes.
// A nil cause is allowed.
func Oversized(cause error, limit int64) *Error {
	message := fmt.Sprintf("The request body is larger than %d bytes.", limit)
	return Wrap(cause, TooLarge, message, Detail{
		Field: "body", Code: TooLong, Message: fmt.Sprintf("must be at most %d bytes long", limit),
		Constraint: map[string]any{"max": limit},
	})
}

// Missing returns a NotFound error for a resource, named by its noun.
func Missing(noun string) *Error {
	return New(NotFound, fmt.Sprintf("No such %s.", noun))
}

// Error reports the public message and the cause: for logs, never for clients.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// defaultDetails are what a VALIDATION_ERROR is about that names no field of its own: a
// part of the request, and what is wrong with it.
var defaultDetails = map[Kind]Detail{
	Validation:           {Field: "request", Code: Custom},
	MethodNotAllowed:     {Field: "method", Code: InvalidEnumValue},
	TooLarge:             {Field: "body", Code: TooLong},
	UnsupportedMediaType: {Field: "contentType", Code: InvalidEnumValue},
	RangeNotSatisfiable:  {Field: "Range", Code: Custom},
}

// PublicDetails are the details of the envelope. A VALIDATION_ERROR has at least
// one (specification 7.1): where e names no field, it is the part of the request
// that e's kind is about. The message of that entry is the one of e. Each received
// value is RedactReceived.
func (e *Error) PublicDetails() []Detail {
	if len(e.Details) > 0 {
		details := slices.Clone(e.Details)
		for i := range details {
			if details[i].Received != nil {
				details[i].Received = RedactReceived(details[i].Received)
			}
		}
		return details
	}
	part, ok := defaultDetails[e.Kind]
	if !ok {
		return nil
	}
	part.Message = e.Message
	return []Detail{part}
}

// From finds the Error in err's chain; an error without one is Internal, with
// err as its cause. It returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Wrap(err, Internal, "Something went wrong on our side.")
}

// Is reports whether err is, or wraps, an Error of that kind.
func Is(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}
