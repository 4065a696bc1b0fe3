package launch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

// checkTimeout bounds the check of a proxy.
const checkTimeout = 15 * time.Second

// Errors of EgressProvider and Egress wrap one of these. Any other error means that
// the proxy is unusable.
var (
	ErrProxyUnreachable = errors.New("the proxy cannot be reached")
	ErrProxyCredentials = errors.New("the proxy refuses the credentials")
	ErrProxyDenied      = errors.New("the proxy's address is denied")
)

// ParseProxy returns the fields of proxyOverride for a proxy URL with credentials. Errors never repeat the URL.
func ParseProxy(text string) (proxy map[string]string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, false
	}
	proxy = map[string]string{}
	if u.User != nil {
		proxy["username"] = u.User.Username()
		if password, ok := u.User.Password(); ok {
			proxy["password"] = password
		}
	}
	u.User = nil
	proxy["server"] = strings.TrimSuffix(u.String(), "/")
	return proxy, true
}

// EgressProvider opens the egress of browsers. Every browser has its own egress,
// with or without a proxy. It enforces the egress policy, and holds the proxy's
// credentials, because Chromium accepts none on its command line.
type EgressProvider interface {
	Check(ctx context.Context, proxy settings.Proxy) error // whether the proxy is reachable and accepts the credentials
	Open(ctx context.Context) (Egress, error)              // direct
}

// Egress is a proxy on loopback, without credentials, for one browser.
type Egress interface {
	Address() string                            // scheme://host:port
	SetRules(rules *netrules.Policy)            // applies these rules to new requests
	SetUpstream(upstream *settings.Proxy) error // uses this upstream proxy from now on; nil: direct
	MoveTo(listener net.Listener)               // serves this listener from now on instead of its address
	// OpenContextProxy opens an address for one browser context, with a proxy server as
	// clients give it in CDP; empty for a server that means no proxy. Errors are for the
	// client. Close closes it too.
	OpenContextProxy(server, bypass string) (address string, closeProxy func(), err error)
	// PresentCertificates presents client certificates to servers, by host:port of their
	// origins, instead of the browser, which must trust the returned authority. Servers have
	// certificates of the system's authorities or these; with allowInvalid, any.
	PresentCertificates(byAddress map[string]tls.Certificate, authorities []*x509.Certificate, allowInvalid bool) (*x509.Certificate, error)
	Restrict(uid int)               // accepts only processes of this user from now on
	Counts() (received, sent int64) // bytes from and to upstream proxies; valid after Close too
	// Network returns what the browser has transferred and was denied, the hosts beyond the
	// limit as one; valid after Close too.
	Network(limit int) session.Network
	CountDenied(host string, v netrules.Verdict) // counts a request that the browser's guard denied
	Close()
}

// checkProxy checks that a proxy works. A nil proxy is valid. field is the name of
// the proxy's field for errors.
func (s *Service) checkProxy(ctx context.Context, proxy *settings.Proxy, field string) error {
	if proxy == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := s.Egress.Check(ctx, *proxy)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return admission.Canceled(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return invalidProxy(err, field, "cannot be reached")
	}
	return proxyError(err, field)
}

// proxyError returns the client error for a failed proxy.
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

// proxyField returns the prefix of the proxy's fields in errors.
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

// usesWorkerKey reports whether the request was authenticated with the worker key. A
// caller with an organization key is not authenticated until the cloud has accepted
// that key, and must not make this machine connect anywhere before.
func (r Request) usesWorkerKey() bool { return r.OrganizationKey.IsZero() }
