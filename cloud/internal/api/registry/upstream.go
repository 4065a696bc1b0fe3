package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
)

// UpstreamOptions configures the upstream.
type UpstreamOptions struct {
	Repository    string        // URL of the repository, such as https://user:password@registry.example.com/svc/worker; anonymous without user
	Redirect      bool          // pass the upstream's redirects of blobs to other hosts on to clients
	HeaderTimeout time.Duration // from a request to the headers of its response; 0 means 30 s
	IdleTimeout   time.Duration // for reading or writing the next part of a body; 0 means 1 min
}

const (
	defaultHeaderTimeout = 30 * time.Second
	defaultIdleTimeout   = time.Minute
	dialTimeout          = 10 * time.Second
	retryUpstream        = 10 * time.Second // Retry-After when the upstream fails
	maxRedirects         = 5
	idleConnections      = 32
)

// Upstream is a repository of another registry.
type Upstream struct {
	UpstreamOptions
	repository name.Repository
	base       url.URL // scheme and host
	auth       authn.Authenticator
	direct     *http.Transport
	// authenticated is direct with the authentication that the registry requires; nil
	// before the first request and after the registry has refused one.
	authenticated atomic.Pointer[http.RoundTripper]
}

// repositoryPattern is the form of a repository's path.
var repositoryPattern = lazy.Regexp(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// NewUpstream checks the options. It does not connect. Errors name the environment
// variable.
func NewUpstream(o UpstreamOptions) (*Upstream, error) {
	u, err := url.Parse(o.Repository)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("REGISTRY_UPSTREAM must be the URL of a repository, such as https://registry.example.com/svc/worker")
	case u.User != nil && !hasCredentials(u.User):
		return nil, errors.New("REGISTRY_UPSTREAM must contain user:password@ or neither of them")
	}
	path := strings.Trim(u.EscapedPath(), "/")
	if !repositoryPattern().MatchString(path) {
		return nil, errors.New("REGISTRY_UPSTREAM must have the path of a repository without a tag, such as /svc/worker")
	}
	var insecure []name.Option
	if u.Scheme == "http" {
		insecure = []name.Option{name.Insecure}
	}
	host, err := name.NewRegistry(u.Host, insecure...)
	if err != nil {
		return nil, fmt.Errorf("REGISTRY_UPSTREAM: %w", err)
	}
	up := &Upstream{
		UpstreamOptions: o, repository: host.Repo(path), base: url.URL{Scheme: u.Scheme, Host: host.RegistryStr()}, auth: authn.Anonymous,
	}
	if u.User != nil {
		password, _ := u.User.Password()
		up.auth = authn.FromConfig(authn.AuthConfig{Username: u.User.Username(), Password: password})
	}
	if up.HeaderTimeout <= 0 {
		up.HeaderTimeout = defaultHeaderTimeout
	}
	if up.IdleTimeout <= 0 {
		up.IdleTimeout = defaultIdleTimeout
	}
	up.direct = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: defaultIdleTimeout,
		DisableCompression: true, // content is passed on as it is
	}
	return up, nil
}

func hasCredentials(u *url.Userinfo) bool {
	password, _ := u.Password()
	return u.Username() != "" && password != ""
}

// Close closes idle connections.
func (u *Upstream) Close() { u.direct.CloseIdleConnections() }

// RoundTrip sends a request without authentication. It never uses another scheme than
// the configured one for the upstream's host: the client library would send credentials
// to some hosts without TLS.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == u.base.Host && r.URL.Scheme != u.base.Scheme {
		return nil, fmt.Errorf("the scheme of REGISTRY_UPSTREAM is %s", u.base.Scheme)
	}
	return u.direct.RoundTrip(r)
}

// transport returns the authenticated transport. The first requests ask the registry
// how to authenticate.
func (u *Upstream) transport(ctx context.Context) (http.RoundTripper, error) {
	if cached := u.authenticated.Load(); cached != nil {
		return *cached, nil
	}
	scopes := []string{u.repository.Scope(transport.PullScope)}
	found, err := transport.NewWithContext(ctx, u.repository.Registry, u.auth, u, scopes)
	if err != nil {
		return nil, err
	}
	u.authenticated.Store(&found)
	return found, nil
}

// forwarded are the headers of requests that reach the upstream.
var forwarded = []string{"Accept", "Range", "If-Range", "If-None-Match", "If-Modified-Since"}

// answer is a response of the upstream.
type answer struct {
	*http.Response
	watch  *time.Timer // cancels the request
	cancel context.CancelCauseFunc
}

// read reads the body; it fails if nothing arrives for idle.
func (a answer) read(p []byte, idle time.Duration) (int, error) {
	a.watch.Reset(idle)
	defer a.watch.Stop() // while the client reads, the upstream waits
	return a.Body.Read(p)
}

func (a answer) close() {
	a.watch.Stop()
	a.cancel(nil)
	_ = a.Body.Close()
}

var errSlow = errors.New("the upstream registry did not answer in time")

// get asks the upstream for the target. The caller closes the answer, whose status is
// 200, 206, 304 or, if redirects are passed on, that of a redirect.
func (u *Upstream) get(ctx context.Context, method string, t target, headers http.Header) (answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(u.HeaderTimeout, func() { cancel(errSlow) })
	response, err := u.send(ctx, method, t, headers) //nolint:bodyclose // answer.close closes it
	watch.Stop()
	if err != nil {
		cause := context.Cause(ctx)
		cancel(nil)
		return answer{}, u.unavailable(errors.Join(cause, withoutURL(err)))
	}
	a := answer{response, watch, cancel}
	if err := u.check(response, t); err != nil {
		a.close()
		return answer{}, err
	}
	return a, nil
}

func (u *Upstream) send(ctx context.Context, method string, t target, headers http.Header) (*http.Response, error) {
	authenticated, err := u.transport(ctx)
	if err != nil {
		return nil, err
	}
	address := u.base
	address.Path = "/v2/" + u.repository.RepositoryStr() + "/" + t.kind + "/" + t.reference
	if t.kind == tags { // pages
		address.RawQuery = t.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, each := range forwarded {
		request.Header[each] = headers[each]
	}
	passOn := u.Redirect && t.kind == blobs && method == http.MethodGet
	client := http.Client{Transport: authenticated, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case passOn && next.URL.Host != u.base.Host:
			return http.ErrUseLastResponse
		case next.URL.Scheme != "https" && u.base.Scheme == "https":
			return errors.New("the upstream registry redirects from https to " + next.URL.Scheme)
		case len(via) > maxRedirects:
			return errors.New("the upstream registry redirects too often")
		}
		return nil
	}}
	return client.Do(request)
}

// check returns an error for a response that is not passed on.
func (u *Upstream) check(response *http.Response, t target) error {
	switch status := response.StatusCode; status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
		return nil
	case http.StatusTemporaryRedirect, http.StatusFound, http.StatusSeeOther, http.StatusPermanentRedirect, http.StatusMovedPermanently:
		return nil
	case http.StatusNotFound:
		return errMissing(t)
	case http.StatusRequestedRangeNotSatisfiable:
		return fault.New(fault.RangeNotSatisfiable, "The requested range is outside the content.")
	case http.StatusUnauthorized, http.StatusForbidden:
		u.authenticated.Store(nil)
		return u.unavailable(fmt.Errorf("the upstream registry answered %d: check REGISTRY_UPSTREAM and its credentials", status))
	default:
		f := u.unavailable(fmt.Errorf("the upstream registry answered %d", status))
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			f.RetryAfter = time.Duration(seconds) * time.Second
		}
		return f
	}
}

func (u *Upstream) unavailable(cause error) *fault.Error {
	f := fault.Wrap(fmt.Errorf("%s: %w", u.base.Host, cause), fault.Unavailable, "The registry that stores the image is not available. Try again later.")
	f.RetryAfter = retryUpstream
	return f
}

// withoutURL removes the URL from an error of an HTTP client: it may be a signed one.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
