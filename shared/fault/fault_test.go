package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestKind_StatusAndCode(t *testing.T) {
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
		{OwnKeyRefused, 424, CodeAuthentication},
		{NotImplemented, 501, CodeNotFound},
		{PreconditionRequired, 428, CodeConflict},
	} {
		if tc.kind.Status() != tc.status || tc.kind.Code() != tc.code {
			t.Errorf("kind %d is %d %s, want %d %s", tc.kind, tc.kind.Status(), tc.kind.Code(), tc.status, tc.code)
		}
	}
	if len(kindResponses) != int(PreconditionRequired)+1 {
		t.Errorf("got %d responses for %d kinds", len(kindResponses), int(PreconditionRequired)+1)
	}
}

func TestFrom_HidesOtherErrors(t *testing.T) {
	if From(nil) != nil {
		t.Error("From(nil) is not nil")
	}
	cause := errors.New("the disk is full")
	inner := Wrap(cause, Conflict, "Not now.")
	if got := From(fmt.Errorf("outer: %w", inner)); got != inner {
		t.Errorf("got %v, want the wrapped fault", got)
	}
	if !errors.Is(inner, cause) || !Is(fmt.Errorf("outer: %w", inner), Conflict) || Is(inner, NotFound) {
		t.Error("Is does not check the chain")
	}
	unknown := From(cause)
	if unknown.Kind != Internal || !errors.Is(unknown, cause) {
		t.Errorf("got %+v, want an internal fault with its cause", unknown)
	}
	if unknown.Message == "" || unknown.Message == cause.Error() {
		t.Errorf("the public message is %q", unknown.Message)
	}
}

func TestFrom_ShortageIsUnavailable(t *testing.T) {
	for number, message := range map[syscall.Errno]string{
		syscall.EMFILE: tooManyFiles, syscall.ENFILE: tooManyFiles, syscall.ENOSPC: diskFull, syscall.EDQUOT: diskFull,
	} {
		cause := fmt.Errorf("launch: %w", &fs.PathError{Op: "open", Path: "/secret", Err: number})
		for _, err := range []error{cause, Wrap(cause, Internal, "The browser did not start."), fmt.Errorf("outer: %w", Wrap(cause, Internal, "No."))} {
			if got := From(err); got.Kind != Unavailable || got.Message != message || !errors.Is(got, number) {
				t.Errorf("%v: %v %q", err, got.Kind, got.Message)
			}
		}
		if known := Wrap(cause, Conflict, "Not now."); From(known) != known {
			t.Errorf("%v: %v", known, From(known))
		}
	}
	if got := From(Wrap(syscall.EACCES, Internal, "No.")); got.Kind != Internal || got.Message != "No." {
		t.Errorf("another error: %v", got)
	}
}

func TestPublicDetails_NamesRequestPart(t *testing.T) {
	for kind := range kindResponses {
		got := New(kind, "No.").PublicDetails()
		if kind.Code() != CodeValidation {
			if got != nil {
				t.Errorf("kind %d has default details %v, want none", kind, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Field == "" || got[0].Code == "" || got[0].Message != "No." {
			t.Errorf("kind %d has details %v, want one that names a part of the request", kind, got)
		}
	}
	own := Detail{Field: "limit", Code: TooBig, Message: "is too big"}
	if got := Invalid(own).PublicDetails(); len(got) != 1 || got[0].Field != "limit" {
		t.Errorf("details = %v, want those of the error", got)
	}
}
