package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestEveryKindHasItsStatusAndCode(t *testing.T) {
	for _, tc := range []struct {
		kind   Kind
		status int
		code   Code
	}{
		{Internal, 500, CodeInternal},
		{Validation, 400, CodeValidation},
		{MethodNotAllowed, 405, CodeValidation},
		{TooLarge, 413, CodeValidation},
		{UnsupportedMediaType, 415, CodeValidation},
		{RangeNotSatisfiable, 416, CodeValidation},
		{PreconditionFailed, 412, CodeConflict},
		{Unauthenticated, 401, CodeAuthentication},
		{PaymentRequired, 402, CodeAuthorization},
		{Forbidden, 403, CodeAuthorization},
		{NotFound, 404, CodeNotFound},
		{NotInstalled, 400, CodeNotFound},
		{Conflict, 409, CodeConflict},
		{RateLimited, 429, CodeRateLimit},
		{BadGateway, 502, CodeExternalService},
		{Unavailable, 503, CodeExternalService},
		{Timeout, 504, CodeExternalService},
	} {
		if tc.kind.Status() != tc.status || tc.kind.Code() != tc.code {
			t.Errorf("kind %d is %d %s, want %d %s", tc.kind, tc.kind.Status(), tc.kind.Code(), tc.status, tc.code)
		}
	}
	if len(answers) != int(Timeout)+1 {
		t.Errorf("%d answers for %d kinds", len(answers), int(Timeout)+1)
	}
}

func TestFromFindsTheFaultAndHidesWhatIsNone(t *testing.T) {
	if From(nil) != nil {
		t.Error("a fault out of nothing")
	}
	cause := errors.New("the disk is full")
	inner := Wrap(cause, Conflict, "Not now.")
	if got := From(fmt.Errorf("outer: %w", inner)); got != inner {
		t.Errorf("got %v, want the wrapped fault", got)
	}
	if !errors.Is(inner, cause) || !Is(fmt.Errorf("outer: %w", inner), Conflict) || Is(inner, NotFound) {
		t.Error("the chain is broken")
	}
	unknown := From(cause)
	if unknown.Kind != Internal || !errors.Is(unknown, cause) {
		t.Errorf("got %+v, want an internal fault with its cause", unknown)
	}
	if unknown.Message == "" || unknown.Message == cause.Error() {
		t.Errorf("the public message is %q", unknown.Message)
	}
}
