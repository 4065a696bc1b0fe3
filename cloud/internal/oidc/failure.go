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

// callTime bounds each call to the provider.
const callTime = 10 * time.Second

// maxAnswer is how much of the provider's answer is read.
const maxAnswer = 1 << 20

// newClient returns the client for all calls. It follows no redirect: requests
// carry the secret.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       callTime,
		Transport:     transport{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transport makes an error of an answer that is none, as of a failure to reach
// the provider. Only a refused code is told by a status: that is what is posted.
type transport struct{ http.RoundTripper }

// statusError is the status of an answer that is none.
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
	res.Body = bounded{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}

type bounded struct {
	io.Reader
	io.Closer
}

// watchedKeys remembers why keys could not be had: the verifier keeps only the
// text.
type watchedKeys struct {
	oidc.KeySet
	err error
}

// VerifySignature implements oidc.KeySet.
func (k *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err
}

// unreachable reports whether a call failed rather than its answer.
func unreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// failure is the fault of a call that brought no usable answer.
func failure(err error) error {
	call, ok := errors.AsType[*url.Error](err)
	status := statusError(0)
	switch {
	case ok && call.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(brief(err), fault.Timeout, "The sign-in provider did not answer in time.")
	case ok && !errors.As(err, &status):
		return fault.Wrap(brief(err), fault.Unavailable, "The sign-in provider cannot be reached.")
	default:
		return fault.Wrap(brief(err), fault.BadGateway, "The sign-in provider gave no usable answer.")
	}
}

// refused is the fault of a code that was not redeemed.
func refused(err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.ErrorCode == "invalid_grant" {
		return fault.Wrap(errors.New("invalid_grant"), fault.Unauthenticated, "The sign-in has expired or was used already. Start again.")
	}
	return failure(err)
}

// distrust is the fault of an answer that proves nothing.
func distrust(cause error) error {
	return fault.Wrap(brief(cause), fault.Unauthenticated, "The sign-in could not be confirmed. Start again.")
}

// brief is an error for the log: the libraries' texts quote whole answers.
func brief(err error) error { return errors.New(shorten(err.Error())) }

const maxText = 300

func shorten(text string) string { return fmt.Sprintf("%.*s", maxText, text) }

// lenience is a boolean that some providers send as text.
type lenience bool

// UnmarshalJSON implements json.Unmarshaler.
func (l *lenience) UnmarshalJSON(text []byte) error {
	*l = string(text) == `true` || string(text) == `"true"`
	return nil
}

// asymmetric is what of the algorithms proves who signed: with the others the
// key would be the client's secret, or none.
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
