package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/worker/internal/proxy"
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
