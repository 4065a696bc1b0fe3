package proxy

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/proxyaddr"
)

// documented matches the servers that the API documents allow.
var documented = regexp.MustCompile(`^(https?|socks5)://[^\s/@?#]+$`)

// FuzzUpstream checks that every upstream that the API documents and the cloud accept
// is accepted, and that no error contains the credentials.
func FuzzUpstream(f *testing.F) {
	for _, server := range []string{
		"http://proxy.example:3128", "https://p", "socks5://[::1]:1080", "http://p:00080", "http://p:99999", "http://[fe80::1%25eth0]:1", "socks5:opaque", "ftp://p:21",
		"http://u:p@p:1", "http://p:1?x", "http://p\\x:1", "http://[::1", "http://p%00:1", "http://ü:1", "http://p:1:2",
	} {
		f.Add(server, "robot", "s3cretword", "*.a.test,<local>;10.0.0.0/8")
		f.Add(server, strings.Repeat("u", 256), "", "<-loopback>")
		f.Add(server, "ro:bot", strings.Repeat("ü", 128), "")
	}
	open := newConnSet(&EgressPolicy{rules: Rules{AllowLocal: true}})
	f.Fuzz(func(t *testing.T, server, username, password, bypass string) {
		u, err := newUpstream(Upstream{Server: server, Username: username, Password: password, Bypass: bypass}, open)
		if err != nil {
			for _, secret := range []string{username, password} {
				if len(secret) > 7 && strings.Contains(err.Error(), secret) && !strings.HasPrefix(server, secret) && strings.Contains(server+"@", secret) {
					t.Errorf("the error contains %q: %v", secret, err)
				}
			}
		}
		passes := len(server) <= 512 && documented.MatchString(server) && len(proxyaddr.Check(server, username, password)) == 0
		if passes && err != nil {
			t.Errorf("the cloud accepts %q with %q and %q, but got: %v", server, username, password, err)
		}
		if err != nil {
			return
		}
		if _, _, err := splitTarget(u.url.Host); err != nil || u.url.User != nil || u.url.RawQuery != "" || !slices.Contains([]string{"http", "https", "socks5"}, u.url.Scheme) {
			t.Errorf("%q was parsed as %q: %v", server, u.url, err)
		}
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(u.basic, "Basic ")); u.basic != "" && (err != nil || string(decoded) != username+":"+password) {
			t.Errorf("got credentials %q: %v", decoded, err)
		}
	})
}

// FuzzBypass checks that a pattern matches like the equivalent regular expression,
// that case is ignored, that a listed host bypasses the proxy, and that local
// addresses do not after <-loopback>.
func FuzzBypass(f *testing.F) {
	for _, list := range []string{"", "*.site.test,10.0.0.0/8", "<local>;[::1]:99", "x.*.y.test:99", "https://*a*b*", "site.test,<-loopback>", "::ffff:10.0.0.0/104", "<local", "*:0", "[", "1.2.3.4/33"} {
		f.Add(list, "a.site.test", uint16(443), false)
		f.Add(list, "[::FFFF:10.1.2.3]", uint16(80), true)
		f.Add(list, "x.a.b.y.test", uint16(99), true)
		f.Add(list, "127.1", uint16(99), true)
	}
	f.Add("*a*a*", "a", uint16(80), true)
	f.Fuzz(func(t *testing.T, list, host string, port uint16, plain bool) {
		covered := parseBypass(list).matches(plain, host, port)
		if again := parseBypass(strings.ToUpper(list)).matches(plain, strings.ToUpper(host), port); again != covered && isASCII(list+host) {
			t.Errorf("%q with %q: %v, in upper case %v", list, host, covered, again)
		}
		for _, near := range []string{"localhost", "a.localhost", "127.0.0.1", "[::1]", "169.254.1.1"} {
			if parseBypass(list+",<-loopback>").matches(plain, near, port) {
				t.Errorf("%q followed by <-loopback> matches %q", list, near)
			}
		}
		if regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9]+)*$`).MatchString(host) && !parseBypass(list+","+host).matches(plain, host, port) {
			t.Errorf("%q followed by %q does not match it", list, host)
		}
		parts := strings.Split(list, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if pattern, err := regexp.Compile(`(?s)^` + strings.Join(parts, ".*") + `$`); err == nil && isASCII(list+host) && pattern.MatchString(host) != matchesPattern(list, host) {
			t.Errorf("%q matches %q: %v", host, list, matchesPattern(list, host))
		}
	})
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// recordingTransport is a transport that records requests instead of sending them.
type recordingTransport struct {
	ofProxy bool
	sent    bytes.Buffer
}

func (s *recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	write := r.Write
	if s.ofProxy {
		write = r.WriteProxy
	}
	if err := write(&s.sent); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}, nil
}

// FuzzRequest forwards arbitrary requests for http URLs, directly and through a
// proxy. It checks that one request is sent, for the same target and host, without
// hop-by-hop headers, and that the proxy's credentials are sent only to the proxy.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{
		"GET http://site.test/a|b?c={d}&e=%zz HTTP/1.1\r\nHost: other.test\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
		"POST http://site.test:8080 HTTP/1.1\r\nHost: site.test:8080\r\nContent-Length: 5\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\r\nhello",
		"PUT http://site.test//evil.test/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"GET http://site.test?x HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\nTE: trailers\r\n\r\n", "GET http://[::1%25lo]:80/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"G=T http://site.test/%2e%2e/#f HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "GET http://u:p@site.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(request))
	}
	open := newConnSet(&EgressPolicy{})
	forwarder := &Forwarder{log: slog.New(slog.DiscardHandler), policy: open.policy, conns: open}
	up, err := newUpstream(Upstream{Server: "http://proxy.test:3128", Username: "robot", Password: "s3cretword"}, open)
	if err != nil {
		f.Fatal(err)
	}
	plain := map[bool]*httputil.ReverseProxy{false: forwarder.newRoute(direct{open}).reverseProxy, true: forwarder.newRoute(up).reverseProxy}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for ofProxy, handler := range plain {
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			if err != nil || r.Method == http.MethodConnect || r.URL.Scheme != "http" || r.URL.Host == "" {
				return // the Forwarder refuses these requests
			}
			out := &recordingTransport{ofProxy: ofProxy}
			handler := *handler
			handler.Transport = out
			handler.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { out.sent.Reset() }
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if out.sent.Len() > 0 {
				assertSame(t, r, out.sent.Bytes(), ofProxy, up.basic)
			}
		}
	})
}

func assertSame(t *testing.T, request *http.Request, sent []byte, ofProxy bool, basic string) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(sent))
	out, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("an invalid request was sent: %q: %v", sent, err)
	}
	_, err = io.Copy(io.Discard, out.Body)
	if rest, _ := io.ReadAll(reader); len(rest) > 0 || err != nil || out.Method != request.Method {
		t.Fatalf("sent %q followed by %q: %v", sent, rest, err)
	}
	for _, name := range []string{"Proxy-Connection", "Te", "Keep-Alive"} {
		if v := out.Header.Get(name); v != "" && v != "trailers" {
			t.Errorf("the header %s: %s was sent", name, v)
		}
	}
	if auth := out.Header["Proxy-Authorization"]; ofProxy && (len(auth) != 1 || auth[0] != basic) || !ofProxy && len(auth) > 0 {
		t.Errorf("sent credentials %q", auth)
	}
	if ofProxy && (out.URL.Scheme != "http" || out.URL.Host != request.URL.Host) || !ofProxy && out.URL.Host != "" {
		t.Errorf("%q was changed to %q", request.RequestURI, out.RequestURI)
	}
	if hostOf(out.Host) != hostOf(request.Host) {
		t.Errorf("got host %q, want %q", out.Host, request.Host)
	}
	_, target, _ := strings.Cut(request.RequestURI, "://")
	start := strings.IndexAny(target, "/?")
	if start < 0 || target[start] != '/' || strings.HasPrefix(target[start:], "//") && !ofProxy {
		return // Go changes an empty path to / and escapes a part of //
	}
	got := out.RequestURI
	if ofProxy {
		_, got, _ = strings.Cut(got, "://")
		got = got[max(0, strings.IndexAny(got, "/?")):]
	}
	want, _, _ := strings.Cut(target[start:], "#")
	if got, _, _ = strings.Cut(got, "#"); strings.TrimSuffix(got, "?") != strings.TrimSuffix(want, "?") {
		t.Errorf("asked got host %q, want %q", got, want)
	}
}

// hostOf returns a host without its IPv6 zone, which is valid only on this machine.
func hostOf(host string) string {
	if before, after, found := strings.Cut(host, "%"); found && strings.HasPrefix(host, "[") {
		return before + after[max(0, strings.IndexByte(after, ']')):]
	}
	return host
}

// scriptedConn is a connection to a proxy with a prepared answer.
type scriptedConn struct {
	duplex  // nil: other methods are not called
	rest    []byte
	size    int
	written bytes.Buffer
}

func (p *scriptedConn) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func (p *scriptedConn) Write(b []byte) (int, error) { return p.written.Write(b) }

func (p *scriptedConn) SetDeadline(time.Time) error { return nil }

// FuzzTunnelAnswer checks for arbitrary answers of a proxy that a tunnel begins
// directly after the answer and loses no byte, and that errors contain neither the
// credentials nor the answer.
func FuzzTunnelAnswer(f *testing.F) {
	f.Add(true, "site.test:443", []byte("\x05\x00\x05\x00\x00\x01\x01\x02\x03\x04\x00\x50rest"), byte(0))
	f.Add(true, "10.0.0.1:1", []byte("\x05\x02\x01\x00\x05\x00\x00\x03\x04name\x00\x50rest"), byte(255))
	f.Add(true, "[2001:db8::1]:1", []byte("\x05\x02\x01\x01"), byte(3))
	f.Add(true, "[2001:db8::1]:1", []byte("\x05\x00\x05\x00\x00\x04an IPv6 address.\x00\x50rest"), byte(3))
	f.Add(true, "a:1", []byte("\x05\x00\x05\x05\x00\x01"), byte(3))
	f.Add(true, "a:1", []byte("\x05\x00\x05\x00\x00\x07\x01\x01\x01"), byte(3))
	f.Add(false, "site.test:443", []byte("HTTP/1.1 200 Connection established\r\nContent-Length: 9\r\n\r\nrest"), byte(255))
	f.Add(false, "site.test:443", []byte("HTTP/1.0 407 robot s3cretword\r\n\r\n"), byte(1))
	f.Add(false, "site.test:443", []byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\n\nrest"), byte(9))
	f.Add(false, "site.test:443", []byte("s3cretword"), byte(9))
	const password = "s3cretword"
	f.Fuzz(func(t *testing.T, socks bool, target string, answer []byte, size byte) {
		host, port, err := splitTarget(target)
		if err != nil || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.:-") != "" {
			return
		}
		u := &upstream{username: "robot", password: password, basic: "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:"+password))}
		peer := &scriptedConn{rest: answer, size: 1 + int(size)}
		tunnel := duplex(peer)
		if socks {
			err = u.connectSOCKS(peer, target)
		} else {
			tunnel, err = u.requestTunnel(peer, target, http.Header{"User-Agent": {"agent"}})
		}
		if err != nil {
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), u.basic) {
				t.Errorf("the error contains the credentials: %v", err)
			}
			return
		}
		rest, err := io.ReadAll(tunnel)
		want, ok := behindSOCKS(answer), true
		if !socks {
			want, ok = behindHead(answer)
		}
		if err != nil || !ok || !bytes.Equal(rest, want) {
			t.Errorf("after %q (%d) got %q, want %q: %v", answer, port, rest, want, err)
		}
		if socks {
			return
		}
		reader := bufio.NewReader(&peer.written)
		request, err := http.ReadRequest(reader)
		if err != nil || reader.Buffered() > 0 || request.Host != target || request.Header.Get("Proxy-Authorization") != u.basic {
			t.Errorf("requested %v: %v", request, err)
		}
	})
}

// behindSOCKS returns the bytes after the messages of a SOCKS proxy that accepted the request.
func behindSOCKS(answer []byte) []byte {
	if answer[1] == methodPassword {
		answer = answer[2:]
	}
	answer = answer[2:]
	length := map[byte]int{addressIPv4: 4, addressIPv6: 16, addressName: 1 + int(answer[4])}[answer[3]]
	return answer[4+length+2:]
}

// behindHead returns the bytes after the first final response header.
func behindHead(answer []byte) ([]byte, bool) {
	r := bufio.NewReaderSize(bytes.NewReader(answer), len(answer)+16)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, false
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		rest, err := io.ReadAll(r)
		return rest, !errors.Is(err, io.ErrUnexpectedEOF)
	}
}
