package launch

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// checkTimeout bounds how long a launch waits to hear whether its proxy works.
const checkTimeout = 15 * time.Second

// What Egress and a Egress tell of a proxy; their errors wrap one of these, or the
// proxy is said to be of no use.
var (
	ErrProxyUnreachable = errors.New("the proxy cannot be reached")
	ErrProxyCredentials = errors.New("the proxy refuses the credentials")
	ErrProxyDenied      = errors.New("the proxy's address is denied")
)

// Egress are how browsers reach the world. Every browser goes by a way of its own,
// with a proxy or without: a way polices what goes through it, and holds a
// proxy's credentials, which Chromium takes none of on its command line.
type EgressProvider interface {
	Check(ctx context.Context, to Proxy) error // whether it can be reached, and takes the credentials
	Open(ctx context.Context) (Egress, error)  // leads straight out
}

// Egress is a proxy on loopback, without credentials, for one browser.
type Egress interface {
	Address() string             // scheme://host:port
	SetUpstream(to *Proxy) error // leads to a proxy from now on; nil: straight out
	MoveTo(to net.Listener)      // listens there from now on, and at its address no longer
	Restrict(uid int)            // lets no other user's processes take it from now on
	Counts() (in, out int64)     // bytes from proxies, and to them, so far; also when closed
	Close()
}

// checkProxy makes sure that a proxy works; none does. field is where the
// request, or the profile, names it.
func (s *Service) checkProxy(ctx context.Context, to *Proxy, field string) error {
	if to == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := s.Egress.Check(ctx, *to)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return launchCanceled(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return invalidProxy(err, field, "cannot be reached")
	}
	return proxyError(err, field)
}

// proxyError says what is wrong with a proxy.
func proxyError(err error, field string) error {
	message := "cannot be used"
	switch {
	case errors.Is(err, ErrProxyDenied):
		message = "is denied on this worker"
	case errors.Is(err, ErrProxyCredentials):
		message = "refuses the credentials"
	case errors.Is(err, ErrProxyUnreachable):
		message = "cannot be reached"
	}
	return invalidProxy(err, field, message)
}

func invalidProxy(err error, field, message string) error {
	return fault.Wrap(err, fault.Validation, "The proxy "+message+".", fault.Detail{Field: field + "server", Code: fault.Custom, Message: message})
}

// proxyField is where a launch's proxy is named.
func (r Request) proxyField() string {
	switch {
	case r.Override.Proxy != nil:
		return "proxyOverride."
	case r.Spec != nil:
		return "spec.proxy."
	default:
		return "profile.proxy."
	}
}

// usesWorkerKey reports whether who asks has shown a credential already: the worker
// key. Whoever brings an organization key shows it to the cloud, and until then
// has no business making this machine connect anywhere.
func (r Request) usesWorkerKey() bool { return r.OrganizationKey.IsZero() }
