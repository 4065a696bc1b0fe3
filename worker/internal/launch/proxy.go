package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// preflightTimeout bounds how long a launch waits to hear whether its proxy
// works.
const preflightTimeout = 15 * time.Second

// What Forward and a Way's Preflight tell of a proxy; the errors of a Preflight
// wrap one of them, or the proxy is said to be of no use.
var (
	ErrProxyUnreachable = errors.New("the proxy cannot be reached")
	ErrProxyCredentials = errors.New("the proxy refuses the credentials")
	ErrProxyDenied      = errors.New("the proxy's address is denied")
)

// Forward starts a way to a proxy. Every proxy is reached through one: Chromium
// takes no credentials on its command line, and a way counts and polices what
// goes through it. A *fault.Error is the client's to read.
type Forward func(ctx context.Context, to Proxy) (Way, error)

// Way is a loopback proxy without credentials that leads to another.
type Way interface {
	Address() string                     // scheme://host:port
	Preflight(ctx context.Context) error // whether the proxy can be reached, and takes the credentials
	Restrict(uid int)                    // lets no other user's processes take it from now on
	Counts() (in, out int64)             // bytes from the proxy, and to it, so far; also when closed
	Close()
}

// open starts the way to a proxy and makes sure that it leads there. field is
// where the request, or the profile, names the proxy.
func (s *Service) open(ctx context.Context, to *Proxy, field string) (Way, error) {
	if to == nil {
		return nil, nil
	}
	way, err := s.Forward(ctx, *to)
	if errors.Is(err, ErrProxyDenied) {
		return nil, useless(err, field, "is denied on this worker")
	}
	if err != nil {
		return nil, fmt.Errorf("start the way to the proxy: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err = way.Preflight(ctx)
	if err == nil {
		return way, nil
	}
	way.Close()
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, givenUp(err)
	}
	message := "cannot be used"
	switch {
	case errors.Is(err, ErrProxyDenied):
		message = "is denied on this worker"
	case errors.Is(err, ErrProxyCredentials):
		message = "refuses the credentials"
	case errors.Is(err, ErrProxyUnreachable), errors.Is(ctx.Err(), context.DeadlineExceeded):
		message = "cannot be reached"
	}
	return nil, useless(err, field, message)
}

func useless(err error, field, message string) error {
	return fault.Wrap(err, fault.Validation, "The proxy "+message+".", fault.Detail{Field: field + "server", Code: fault.Custom, Message: message})
}

// proxyField is where a launch's proxy is named unless the launch overrides it.
func (r Request) proxyField() string {
	if r.Spec != nil {
		return "spec.proxy."
	}
	return "profile.proxy."
}

// vetted reports whether who asks has shown a credential already: the worker
// key. Whoever brings an organization key shows it to the cloud, and until then
// has no business making this machine connect anywhere.
func (r Request) vetted() bool { return r.OrganizationKey.IsZero() }

// traffic is what has gone through a way; nil for none.
func traffic(way Way) *session.Traffic {
	if way == nil {
		return nil
	}
	in, out := way.Counts()
	return &session.Traffic{Received: in, Sent: out}
}
