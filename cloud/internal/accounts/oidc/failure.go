package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/browser-svc/svc/shared/fault"
)

// callTimeout bounds each call to the provider.
const callTimeout = 10 * time.Second

// maxResponse is the maximum size of a response of the provider.
const maxResponse = 1 << 20

// newClient returns the HTTP client for all calls. It does not follow redirects,
// because requests contain the secret.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       callTimeout,
		Transport:     transport{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transport returns an error for an error response, and for a failure to reach the
// provider. It passes on a 4xx response to a POST, which means that the code was refused.
type transport struct{ http.RoundTripper }

// statusError is the status of an error response.
type statusError int

func (e statusError) Error() string { return "the provider failed with status " + strconv.Itoa(int(e)) }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusInternalServerError || r.Method == http.MethodGet && res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, statusError(res.StatusCode)
	}
	res.Body = limitedBody{io.LimitReader(res.Body, maxResponse), res.Body}
	return res, nil
}

type limitedBody struct {
	io.Reader
	io.Closer
}

// keySet keeps the error of a key download; the verifier passes on only its text.
type keySet struct {
	oidc.KeySet
	err error
}

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err
}

// isUnreachable reports whether the call failed without a response.
func isUnreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// failure returns the fault for a failed call.
func failure(err error) error {
	call, ok := errors.AsType[*url.Error](err)
	status := statusError(0)
	switch {
	case ok && call.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(truncateError(err), fault.Timeout, "The sign-in provider did not answer in time.")
	case ok && !errors.As(err, &status):
		return fault.Wrap(truncateError(err), fault.Unavailable, "The sign-in provider cannot be reached.")
	default:
		return fault.Wrap(truncateError(err), fault.BadGateway, "The sign-in provider returned an invalid answer.")
	}
}

// refused returns the fault for a code that was not accepted.
func refused(err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.ErrorCode == "invalid_grant" {
		return fault.Wrap(errors.New("invalid_grant"), fault.Unauthenticated, "The sign-in has expired or has already been used. Start again.")
	}
	return failure(err)
}

// errUntrusted returns the fault for an answer that fails verification.
func errUntrusted(cause error) error {
	return fault.Wrap(truncateError(cause), fault.Unauthenticated, "The sign-in could not be confirmed. Start again.")
}

// truncateError shortens an error for the log: the libraries quote whole
// responses.
func truncateError(err error) error { return errors.New(truncate(err.Error())) }

const maxText = 300

func truncate(text string) string { return fmt.Sprintf("%.*s", maxText, text) }

// lenientBool is a boolean that some providers send as a string.
type lenientBool bool

// UnmarshalJSON implements json.Unmarshaler.
func (l *lenientBool) UnmarshalJSON(text []byte) error {
	*l = string(text) == `true` || string(text) == `"true"`
	return nil
}

// asymmetric returns the asymmetric ones of the algorithms. The others would
// verify with the client secret, or not at all.
func asymmetric(algorithms []string) []string {
	var result []string
	for _, a := range algorithms {
		switch a {
		case oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512,
			oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA:
			result = append(result, a)
		}
	}
	return result
}
