// Package sender sends requests to the endpoints of webhooks, which customers choose. It
// refuses addresses that are not public, follows no redirects and reads little of a
// response.
package sender

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// connectTimeout is the timeout of a connection, and of its TLS handshake.
const connectTimeout = 5 * time.Second

// maxIdle is the maximum number of unused connections to an endpoint.
const maxIdle = 8

// maxResponse is how much of a response is read, so that the connection can be used again.
const maxResponse = 4 << 10

// specialNetworks are networks without public hosts, apart from those that netip knows:
// the IANA registries of special-purpose addresses.
var specialNetworks = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
	"fec0::/10")

func prefixes(all ...string) (parsed []netip.Prefix) {
	for _, text := range all {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// isPublic reports whether an address can be that of a host on the internet. An address
// with an embedded IPv4 address is as public as that.
func isPublic(a netip.Addr) bool {
	return !slices.ContainsFunc(netrules.WithEmbeddedIPv4(a.WithZone("")), func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsGlobalUnicast() || a.IsPrivate() || slices.ContainsFunc(specialNetworks, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// addressError is the refusal of an address.
type addressError netip.Addr

func (e addressError) Error() string {
	return "the address " + netip.Addr(e).String() + " of the host is not public"
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// New returns a client that also reaches the allowed networks. Each address is checked
// when it is dialed, so a name cannot resolve to another one after the check. The client
// uses no proxy, because that would resolve names itself.
func New(allowed []netip.Prefix) *Client {
	dialer := net.Dialer{Timeout: connectTimeout, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		remote, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		a := remote.Addr().Unmap()
		if isPublic(a) || slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) }) {
			return nil
		}
		return addressError(a)
	}}
	return &Client{&http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, ForceAttemptHTTP2: true,
			MaxIdleConns: 200, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes unused connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends a JSON body and returns the status of the response. An error is for the
// owner of the endpoint, and does not contain the URL.
func (c *Client) Post(ctx context.Context, url string, header map[string]string, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the URL is invalid")
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, publicError(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // the status decides
	return response.StatusCode, nil
}

// publicError returns the reason of a failed request for the user, without the URL.
func publicError(err error) error {
	var refused addressError
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &name):
		return errors.New("the host name cannot be resolved")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no response in time")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}
