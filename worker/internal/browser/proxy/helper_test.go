package proxy_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// startForwarder runs a Forwarder for the test.
func startForwarder(t *testing.T, policy *proxy.EgressPolicy) (*proxy.Forwarder, *testenv.Log) {
	t.Helper()
	log := &testenv.Log{}
	f, err := proxy.Start(policy, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, log
}

// newPolicy returns a policy that denies the listed hosts and endpoints and allows
// this machine, where the tests' servers run.
func newPolicy(t *testing.T, list string, places ...string) *proxy.EgressPolicy {
	t.Helper()
	w, err := proxy.NewEgressPolicy(proxy.Rules{Denylist: parseDenylist(t, list), DeniedEndpoints: places, AllowLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// startWithUpstream starts a Forwarder with an upstream, also for this machine. At
// the end of the test no log line may contain a part of the credentials.
func startWithUpstream(t *testing.T, upstream proxy.Upstream) (*proxy.Forwarder, *testenv.Log) {
	t.Helper()
	return startWithPolicy(t, newPolicy(t, ""), upstream)
}

func startWithPolicy(t *testing.T, policy *proxy.EgressPolicy, upstream proxy.Upstream) (*proxy.Forwarder, *testenv.Log) {
	t.Helper()
	f, log := startForwarder(t, policy)
	upstream.Bypass = "<-loopback>"
	if err := f.SetUpstream(&upstream); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		assertNoSecret(t, log.String(), upstream)
	})
	return f, log
}

func assertNoSecret(t *testing.T, text string, upstream proxy.Upstream) {
	t.Helper()
	secrets := []string{upstream.Username, upstream.Password, url.QueryEscape(upstream.Password), url.PathEscape(upstream.Password),
		base64.StdEncoding.EncodeToString([]byte(upstream.Username + ":" + upstream.Password))}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("the secret %q is in %q", secret, text)
		}
	}
}

// clientOf returns a client that uses the Forwarder.
func clientOf(t *testing.T, f *proxy.Forwarder) *http.Client {
	t.Helper()
	address, err := url.Parse(f.Address())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(address)}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func do(t *testing.T, c *http.Client, method, address, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func dial(t *testing.T, f *proxy.Forwarder) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.Address(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// ask sends a request header and reads the header of the answer. The reader returns
// the bytes after it.
func ask(t *testing.T, c net.Conn, method, head string) (*http.Response, *bufio.Reader) {
	t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(method+" "+head, "\n", "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(c)
	answer, err := http.ReadResponse(reader, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return answer, reader
}

// connect opens a tunnel.
func connect(t *testing.T, f *proxy.Forwarder, target string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c := dial(t, f)
	answer, reader := ask(t, c, "CONNECT", target+" HTTP/1.1\nHost: "+target)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT %s: %s", target, answer.Status)
	}
	return c, reader
}

// eventually polls until ok, and fails after the limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
