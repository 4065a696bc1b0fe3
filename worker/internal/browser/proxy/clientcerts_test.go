package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// certServer is a server that answers with the subject of the client's certificate.
type certServer struct{ url, address string }

// startCertServer starts a server with a certificate for this host name that asks clients
// for a certificate of the authority, and requires it if auth says so.
func startCertServer(t *testing.T, server, clients certtest.Authority, name string, expires time.Time, auth tls.ClientAuthType) certServer {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, certificate := range r.TLS.PeerCertificates {
			_, _ = fmt.Fprint(w, certificate.Subject.CommonName, " over ", r.Proto)
		}
	}))
	pool := x509.NewCertPool()
	pool.AddCert(clients.Certificate)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{server.Issue(t, name, expires)}, ClientAuth: auth, ClientCAs: pool}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	address := fmt.Sprintf("localhost:%d", s.Listener.Addr().(*net.TCPAddr).Port)
	return certServer{"https://" + address, address}
}

func TestPresentCertificates_OnlyToNamedOriginsWithValidCertificate(t *testing.T) {
	servers, clients := certtest.NewAuthority(t, "Servers"), certtest.NewAuthority(t, "Clients")
	soon := time.Now().Add(time.Hour)
	start := func(authority certtest.Authority, name string, expires time.Time, auth tls.ClientAuthType) certServer {
		return startCertServer(t, authority, clients, name, expires, auth)
	}
	named := start(servers, "localhost", soon, tls.RequireAndVerifyClientCert)
	other := start(servers, "localhost", soon, tls.RequestClientCert)
	wrongHost := start(servers, "otherhost", soon, tls.RequestClientCert)
	expired := start(servers, "localhost", time.Now().Add(-time.Minute), tls.RequestClientCert)
	unknown := start(certtest.NewAuthority(t, "Unknown"), "localhost", soon, tls.RequestClientCert)
	robot := clients.Issue(t, "robot", soon)
	byAddress := map[string]tls.Certificate{}
	for _, each := range []certServer{named, wrongHost, expired, unknown} {
		byAddress[each.address] = robot
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(servers.Certificate)
	for _, tc := range []struct {
		name           string
		server         certServer
		allowInvalid   bool
		answer, failed string
	}{
		{"named", named, false, "robot over HTTP/2.0", ""},
		{"another port", other, false, "", ""},
		{"wrong host", wrongHost, false, "", "valid for otherhost, not localhost"},
		{"expired", expired, false, "", "has expired"},
		{"unknown authority", unknown, false, "", "unknown authority"},
		{"wrong host allowed", wrongHost, true, "robot over HTTP/2.0", ""},
		{"expired allowed", expired, true, "robot over HTTP/2.0", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, _ := startForwarder(t, newPolicy(t, ""))
			authority, err := f.PresentCertificates(proxy.ClientCertificates{ByAddress: byAddress, Roots: trusted, AllowInvalid: tc.allowInvalid})
			if err != nil {
				t.Fatal(err)
			}
			browser := clientOf(t, f)
			roots := trusted.Clone()
			roots.AddCert(authority)
			transport := browser.Transport.(*http.Transport)
			transport.TLSClientConfig, transport.ForceAttemptHTTP2 = &tls.Config{RootCAs: roots}, true
			if tc.failed == "" {
				if _, got := do(t, browser, http.MethodGet, tc.server.url, ""); got != tc.answer {
					t.Errorf("the server got %q, want %q", got, tc.answer)
				}
				return
			}
			if _, err := browser.Get(tc.server.url); err == nil || !strings.Contains(err.Error(), tc.failed) {
				t.Errorf("got %v, want %q", err, tc.failed)
			}
		})
	}
}

// TestPresentCertificates_FollowsProtocol: a client that offers only HTTP/1.1, as browsers do for a
// WebSocket, does not get HTTP/2.
func TestPresentCertificates_FollowsProtocol(t *testing.T) {
	servers, clients := certtest.NewAuthority(t, "Servers"), certtest.NewAuthority(t, "Clients")
	server := startCertServer(t, servers, clients, "localhost", time.Now().Add(time.Hour), tls.RequireAndVerifyClientCert)
	f, _ := startForwarder(t, newPolicy(t, ""))
	trusted := x509.NewCertPool()
	trusted.AddCert(servers.Certificate)
	authority, err := f.PresentCertificates(proxy.ClientCertificates{
		ByAddress: map[string]tls.Certificate{server.address: clients.Issue(t, "robot", time.Now().Add(time.Hour))}, Roots: trusted,
	})
	if err != nil {
		t.Fatal(err)
	}
	browser := clientOf(t, f)
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	browser.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	if answer, text := do(t, browser, http.MethodGet, server.url, ""); text != "robot over HTTP/1.1" || answer.TLS.PeerCertificates[0].Issuer.CommonName != authority.Subject.CommonName {
		t.Errorf("the server got %q", text)
	}
}

// presenting makes a Forwarder present the certificate of a robot to this address, and returns how its browser
// trusts it.
func presenting(t *testing.T, f *proxy.Forwarder, servers, clients certtest.Authority, address string) *tls.Config {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AddCert(servers.Certificate)
	authority, err := f.PresentCertificates(proxy.ClientCertificates{
		ByAddress: map[string]tls.Certificate{address: clients.Issue(t, "robot", time.Now().Add(time.Hour))}, Roots: trusted,
	})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return &tls.Config{RootCAs: roots}
}

// TestPresentCertificates_ThroughUpstreams: the origin is reached through the upstream of the launch or of a
// browser context, or directly if it is a bypass.
func TestPresentCertificates_ThroughUpstreams(t *testing.T) {
	servers, clients := certtest.NewAuthority(t, "Servers"), certtest.NewAuthority(t, "Clients")
	server := startCertServer(t, servers, clients, "site.test", time.Now().Add(time.Hour), tls.RequireAndVerifyClientCert)
	local := startCertServer(t, servers, clients, "localhost", time.Now().Add(time.Hour), tls.RequireAndVerifyClientCert)
	const site = "site.test:8443"
	for _, kind := range kinds {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moved %t", kind, moved), func(t *testing.T) {
				ofLaunch, ofContext := newFakeInternet(t, kind, server.address), newFakeInternet(t, kind, server.address)
				f, _ := startWithUpstream(t, ofLaunch.Upstream)
				address := f.Address()
				if moved {
					address = moveToAllAddresses(t, f)
				}
				trust := presenting(t, f, servers, clients, site)
				for name, through := range map[string]string{"launch": address, "context": openContextProxy(t, f, ofContext.Upstream).Address()} {
					client := clientThrough(t, through, nil)
					client.Transport.(*http.Transport).TLSClientConfig = trust.Clone()
					if _, got := do(t, client, http.MethodGet, "https://"+site, ""); got != "robot over HTTP/1.1" {
						t.Errorf("%s: the server got %q", name, got)
					}
				}
				for name, up := range map[string]*fakeInternet{"launch": ofLaunch, "context": ofContext} {
					if _, targets, _ := up.requests(); len(targets) != 1 || targets[0] != site {
						t.Errorf("the upstream of the %s got requests for %q", name, targets)
					}
				}
			})
		}
	}
	t.Run("bypass", func(t *testing.T) {
		up := newFakeInternet(t, "http", server.address)
		up.Bypass = "localhost"
		f, _ := startForwarder(t, newPolicy(t, ""))
		if err := f.SetUpstream(&up.Upstream); err != nil {
			t.Fatal(err)
		}
		client := clientOf(t, f)
		client.Transport.(*http.Transport).TLSClientConfig = presenting(t, f, servers, clients, local.address)
		if _, got := do(t, client, http.MethodGet, local.url, ""); got != "robot over HTTP/1.1" {
			t.Errorf("the server got %q", got)
		}
		if _, targets, _ := up.requests(); len(targets) > 0 {
			t.Errorf("the upstream got requests for %q", targets)
		}
	})
}

// TestPresentCertificates_CloseEndsTunnels: tunnels in every step end with the Forwarder.
func TestPresentCertificates_CloseEndsTunnels(t *testing.T) {
	servers, clients := certtest.NewAuthority(t, "Servers"), certtest.NewAuthority(t, "Clients")
	named := startCertServer(t, servers, clients, "localhost", time.Now().Add(time.Hour), tls.RequireAndVerifyClientCert)
	unknown := startCertServer(t, certtest.NewAuthority(t, "Unknown"), clients, "localhost", time.Now().Add(time.Hour), tls.RequestClientCert)
	silent := listenLoopback(t).Addr().String() // accepts connections in the kernel's queue and never answers
	trusted := x509.NewCertPool()
	trusted.AddCert(servers.Certificate)
	f, _ := startForwarder(t, newPolicy(t, ""))
	robot := clients.Issue(t, "robot", time.Now().Add(time.Hour))
	_, err := f.PresentCertificates(proxy.ClientCertificates{ByAddress: map[string]tls.Certificate{named.address: robot, unknown.address: robot, silent: robot}, Roots: trusted})
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]net.Conn{}
	tunnel := func(name, address string) net.Conn {
		open[name], _ = connect(t, f, address)
		return open[name]
	}
	insecure := &tls.Config{InsecureSkipVerify: true}
	for name, address := range map[string]string{"relayed": named.address, "raw": unknown.address} {
		if err := tls.Client(tunnel(name, address), insecure.Clone()).Handshake(); err != nil {
			t.Fatal(err)
		}
	}
	tunnel("no hello", named.address)
	tunnel("a part of a hello", named.address).Write([]byte{22, 3, 1})
	handshake := make(chan error, 1)
	go func(c net.Conn) { handshake <- tls.Client(c, insecure.Clone()).Handshake() }(tunnel("silent server", silent))
	eventually(t, 5*time.Second, "all tunnels", func() bool {
		return strings.Count(string(stacks()), "proxy.(*Forwarder).tunnelTLS(") == 5 && strings.Count(string(stacks()), "proxy.relay(") == 2 &&
			strings.Contains(string(stacks()), "proxy.(*Forwarder).tunnelTLS.func1(")
	})
	begin := time.Now()
	f.Close()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := <-handshake; err == nil {
		t.Error("a handshake with a silent server succeeded")
	}
	for _, c := range open {
		_, _ = io.Copy(io.Discard, c) // ends with the connection or at the deadline of dial
	}
	if time.Since(begin) > 5*time.Second {
		t.Error("a connection of the browser is still open")
	}
	eventually(t, 5*time.Second, "no goroutine left", func() bool { return !holdsForwarder() })
}
