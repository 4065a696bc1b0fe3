package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// Upstream is an upstream proxy.
type Upstream struct {
	Server             string         // scheme://host[:port]; http, https or socks5; by default port 80, 443 or 1080
	Username, Password string         // Basic for http and https, RFC 1929 for socks5; both empty: none
	RootCAs            *x509.CertPool // for the certificate of an https proxy; nil: the system's
	Bypass             string         // destinations reached directly, in Chromium's syntax
}

// Errors of an upstream, for errors.Is.
var (
	ErrCredentials = errors.New("the proxy refuses the credentials") // or requires credentials
	ErrUnreachable = errors.New("unreachable")                       // or no answer, or not a proxy of that kind
	ErrDenied      = errors.New("the egress policy denies the proxy's address")
)

var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080"}

// refusedError is a proxy's answer to CONNECT that is not a success.
type refusedError struct{ answer string }

func (e *refusedError) Error() string { return "tunnel refused: " + e.answer }

// challengeHeader is the header of a proxy that demands credentials (RFC 9110, 11.7.1).
const challengeHeader = "Proxy-Authenticate"

// challengeError is a proxy's demand for credentials from the browser.
type challengeError struct{ challenges []string }

func (e *challengeError) Error() string { return "the proxy requires credentials" }

// duplex is a connection whose directions can be closed separately.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// upstream opens connections to and through the proxy.
type upstream struct {
	url                *url.URL // scheme and host:port, nothing else
	tls                *tls.Config
	basic              string // value of Proxy-Authorization, or empty
	username, password string
	relaysAuth         bool // the browser authenticates itself
	peer               peer
	conns              *connSet
	endpoint           *endpoint // the proxy's address
}

func newUpstream(settings Upstream, open *connSet) (*upstream, error) {
	address, err := parseServer(settings.Server)
	if err != nil {
		return nil, err
	}
	host, port, err := splitTarget(address.Host)
	if err != nil {
		return nil, errors.New("the server's port is invalid")
	}
	if open.policy.denies(host, port) {
		return nil, ErrDenied
	}
	u := &upstream{url: address, username: settings.Username, password: settings.Password, peer: proxy, conns: open}
	u.endpoint = &endpoint{name: netrules.NormalizeHost(host), port: port, resolver: open.resolver}
	anonymous := settings.Username == "" && settings.Password == ""
	switch {
	case anonymous:
	case address.Scheme == "socks5":
		if settings.Username == "" || len(settings.Username) > 255 || len(settings.Password) > 255 {
			return nil, errors.New("a socks5 proxy requires a username of 1 to 255 bytes and a password of at most 255 bytes")
		}
	case strings.Contains(settings.Username, ":"):
		return nil, errors.New("the username of an http proxy must not contain a colon")
	default:
		u.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(settings.Username+":"+settings.Password))
	}
	if address.Scheme == "https" {
		u.tls = &tls.Config{ServerName: address.Hostname(), RootCAs: settings.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	return u, nil
}

// parseServer never repeats the server in errors, because it may contain a password.
func parseServer(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the server must have the form scheme://host:port")
	}
	if u.User != nil {
		return nil, errors.New("the server's URL must not contain credentials")
	}
	port, ok := defaultPorts[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("the scheme %q must be http, https or socks5", u.Scheme)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return &url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(u.Hostname(), port)}, nil
}

// dial connects to the proxy itself.
func (u *upstream) dial(ctx context.Context) (duplex, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := u.conns.dial(ctx, u.url.Host, u.peer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if u.tls == nil {
		return c, nil
	}
	secure := tls.Client(c, u.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: TLS: %w", ErrUnreachable, err)
	}
	return secure, nil
}

// dialContext is dial with the signature of http.Transport.
func (u *upstream) dialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return u.dial(ctx)
}

// connectContext is connect with the signature of http.Transport.
func (u *upstream) connectContext(ctx context.Context, _, target string) (net.Conn, error) {
	return u.connect(ctx, target, nil)
}

// connect implements outbound. The proxy resolves the target's name.
func (u *upstream) connect(ctx context.Context, target string, header http.Header) (duplex, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return u.open(ctx, func(c duplex) (duplex, error) {
		if u.url.Scheme == "socks5" {
			return c, u.connectSOCKS(c, target)
		}
		return u.requestTunnel(c, target, header)
	})
}

// transport implements outbound. It talks HTTP to an HTTP proxy. Through a SOCKS
// proxy it talks to the destination.
func (u *upstream) transport() *http.Transport {
	t := newTransport()
	if u.url.Scheme == "socks5" {
		t.DialContext = u.connectContext
		return t
	}
	t.Proxy = http.ProxyURL(u.url)
	t.DialContext = u.dialContext
	t.DialTLSContext = u.dialContext
	return t
}

// authorization implements outbound.
func (u *upstream) authorization(browserValue string) string {
	if u.relaysAuth {
		return browserValue
	}
	return u.basic
}

// open dials the proxy and performs the handshake, both bounded by ctx.
func (u *upstream) open(ctx context.Context, handshake func(duplex) (duplex, error)) (duplex, error) {
	c, err := u.dial(ctx)
	if err != nil {
		return nil, err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := handshake(c)
	if !interrupt() {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("open tunnel: %w", err)
	}
	return tunnel, nil
}

// requestTunnel sends CONNECT (RFC 9110, 9.3.6). header is that of the browser's
// request.
func (u *upstream) requestTunnel(c duplex, target string, header http.Header) (duplex, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"User-Agent": {header.Get("User-Agent")}}}
	if value := u.authorization(header.Get("Proxy-Authorization")); value != "" {
		request.Header.Set("Proxy-Authorization", value)
	}
	if err := request.Write(c); err != nil {
		return nil, err
	}
	limit := &io.LimitedReader{R: c, N: 64 << 10} // limits the answer's header
	reader := bufio.NewReader(limit)
	answer, err := http.ReadResponse(reader, request) //nolint:bodyclose // a tunnel's answer has no body
	if err != nil {
		return nil, sanitizeAnswerError(err)
	}
	limit.N = math.MaxInt64
	switch {
	case u.relaysAuth && answer.StatusCode == http.StatusProxyAuthRequired:
		return nil, &challengeError{answer.Header.Values(challengeHeader)}
	case answer.StatusCode == http.StatusProxyAuthRequired, answer.StatusCode == http.StatusUnauthorized: // tinyproxy answers 401
		return nil, ErrCredentials
	case answer.StatusCode/100 != 2:
		return nil, &refusedError{fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))}
	}
	return &bufferedConn{duplex: c, reader: reader}, nil
}

// sanitizeAnswerError removes the proxy's answer, which may repeat the credentials.
func sanitizeAnswerError(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errors.New("the answer is not HTTP")
}

// bufferedConn is a connection whose first bytes are already buffered.
type bufferedConn struct {
	duplex
	reader *bufio.Reader
}

// Read implements io.Reader.
func (r *bufferedConn) Read(p []byte) (int, error) { return r.reader.Read(p) }
