// Package fault has the error type that packages return for API responses, and
// the table that maps it to an HTTP status and an error code.
//
// The message and the details are public. The wrapped cause is for the log only:
// the Error method includes it, the failure envelope does not.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Code is the error.code of the failure envelope (specification 7.1; this project
// defines the last two names).
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

// Kind classifies an error. It determines the status and the code.
type Kind int

// The kinds. The zero value is Internal: an unclassified error is a server error.
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
	BadGateway    // another service returned an error or an invalid response
	Unavailable   // another service is unreachable
	Timeout       // another service did not respond in time
	OwnKeyRefused // this service's own credential is missing or refused; the operator must fix it

	NotImplemented       // the operator has not installed what a request needs
	PreconditionRequired // the version of a client does not fit, as Playwright answers it
)

type kindResponse struct {
	status int
	code   Code
}

// kindResponses maps each kind to its status and code.
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
	OwnKeyRefused:        {http.StatusFailedDependency, CodeAuthentication}, // HTTP libraries repeat a 503
	NotImplemented:       {http.StatusNotImplemented, CodeNotFound},
	PreconditionRequired: {http.StatusPreconditionRequired, CodeConflict},
}

// Status returns the HTTP status of the kind.
func (k Kind) Status() int { return kindResponses[k].status }

// Code returns the envelope code of the kind.
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

// Detail is one entry of error.details (specification 2.2). Received is the value
// that the caller sent, up to MaxReceived characters; it is omitted for secrets.
// Constraint is the violated limit.
type Detail struct {
	Field      string         `json:"field"`
	Code       string         `json:"code"`
	Message    string         `json:"message"`
	Received   any            `json:"received,omitempty"`
	Constraint map[string]any `json:"constraint,omitempty"`
}

// Error is an error with a public message.
type Error struct {
	Kind       Kind
	Message    string        // public
	Details    []Detail      // public
	RetryAfter time.Duration // sent as Retry-After when positive
	Allow      string        // sent as Allow with MethodNotAllowed
	cause      error         // for the log only
}

// New returns an Error with a public message.
func New(kind Kind, message string, details ...Detail) *Error {
	return &Error{Kind: kind, Message: message, Details: details}
}

// Wrap returns an Error with a public message and a cause for the log. The cause
// may be nil.
func Wrap(cause error, kind Kind, message string, details ...Detail) *Error {
	return &Error{Kind: kind, Message: message, Details: details, cause: cause}
}

// Invalid returns a Validation error with the details.
func Invalid(details ...Detail) *Error {
	return New(Validation, "The request is not valid.", details...)
}

// Field returns a Validation error about one field, code CUSTOM.
func Field(field, message string) *Error {
	return Invalid(Detail{Field: field, Code: Custom, Message: message})
}

// Oversized returns a TooLarge error for a request body larger than limit bytes.
// The cause may be nil.
func Oversized(cause error, limit int64) *Error {
	message := fmt.Sprintf("The request body is larger than %d bytes.", limit)
	return Wrap(cause, TooLarge, message, Detail{
		Field: "body", Code: TooLong, Message: fmt.Sprintf("must be at most %d bytes long", limit),
		Constraint: map[string]any{"max": limit},
	})
}

// Missing returns a NotFound error for a kind of resource, such as "profile".
func Missing(noun string) *Error {
	return New(NotFound, fmt.Sprintf("No such %s.", noun))
}

// Error returns the public message and the cause. It is for logs only.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// defaultDetails are the details of validation errors without details: the
// affected part of the request.
var defaultDetails = map[Kind]Detail{
	Validation:           {Field: "request", Code: Custom},
	MethodNotAllowed:     {Field: "method", Code: InvalidEnumValue},
	TooLarge:             {Field: "body", Code: TooLong},
	UnsupportedMediaType: {Field: "contentType", Code: InvalidEnumValue},
	RangeNotSatisfiable:  {Field: "Range", Code: Custom},
}

// PublicDetails returns the details of the failure envelope, with redacted
// received values. A VALIDATION_ERROR has at least one detail (specification 7.1):
// if e has none, it is the affected part of the request, with e's message.
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

// From returns the Error in err's chain, or an Internal error with err as its
// cause. An Internal error becomes Unavailable if it is caused by a full disk or by
// too many open files. From returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		e = Wrap(err, Internal, "Something went wrong on our side.")
	}
	if message := shortageMessage(err); message != "" && e.Kind == Internal {
		return Wrap(err, Unavailable, message)
	}
	return e
}

// RenameFields returns an error like err whose details name other fields. An error without
// details is returned unchanged.
func RenameFields(err error, rename func(field string) string) error {
	original, ok := errors.AsType[*Error](err)
	if !ok || len(original.Details) == 0 {
		return err
	}
	renamed := *original
	renamed.Details = slices.Clone(original.Details)
	for i := range renamed.Details {
		renamed.Details[i].Field = rename(renamed.Details[i].Field)
	}
	return &renamed
}

// Is reports whether err is or wraps an Error of the kind.
func Is(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}
