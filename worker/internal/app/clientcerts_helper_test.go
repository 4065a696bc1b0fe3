package app_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const passphrase = "passphrase-of-these-tests"

// certSite is a server that asks for client certificates. Its page has the title
// "NAME over PROTOCOL" with the name of the client certificate; its WebSocket is at /socket.
type certSite struct {
	origin    string
	presented atomic.Int64 // handshakes with a client certificate
}

// startCertSite starts a server with this certificate, which verifies those of clients as auth says.
func startCertSite(t *testing.T, certificate tls.Certificate, clients certtest.Authority, auth tls.ClientAuthType) *certSite {
	t.Helper()
	site := &certSite{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/socket" {
			if socket, err := ws.Accept(w, r, ws.Options{Origins: []string{"*"}}); err == nil {
				socket.CloseNow()
			}
			return
		}
		name := "nobody"
		for _, presented := range r.TLS.PeerCertificates[:min(1, len(r.TLS.PeerCertificates))] {
			name = presented.Subject.CommonName
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<title>%s over %s</title>", name, r.Proto)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(clients.Certificate)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: auth, ClientCAs: pool,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) > 0 {
				site.presented.Add(1)
			}
			return nil
		}}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	site.origin = fmt.Sprintf("https://localhost:%d", server.Listener.Addr().(*net.TCPAddr).Port)
	return site
}

// shows returns the title of a page, or the error of the browser.
func (d *tab) shows(t *testing.T, address string) string {
	t.Helper()
	if problem := d.navigate(t, address); problem != "" {
		return problem
	}
	for range 200 { // the navigation is committed, the title may follow
		if title := d.eval(t, "document.readyState === 'complete' ? document.title : ''"); title != "" {
			return title
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

// connects reports whether a page can open a WebSocket.
func (d *tab) connects(t *testing.T, origin string) string {
	t.Helper()
	var answer struct{ Result struct{ Value string } }
	d.call(t, "Runtime.evaluate", map[string]any{"awaitPromise": true, "expression": fmt.Sprintf(`new Promise(done => {
		const socket = new WebSocket(%q);
		socket.onopen = () => done("open");
		socket.onerror = () => done("failed");
	})`, strings.Replace(origin, "https", "wss", 1)+"/socket")}, &answer)
	return answer.Result.Value
}

// clientInput is an entry of clientCertificates: cert and key, or pfx.
type clientInput map[string]string

func encode(t *testing.T, kind string, raw []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func plainInput(t *testing.T, origin string, client tls.Certificate) clientInput {
	raw, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	return clientInput{"origin": origin, "cert": certtest.PEM(client.Leaf), "key": encode(t, "PRIVATE KEY", raw, err)}
}

func encryptedInput(t *testing.T, origin string, client tls.Certificate) clientInput {
	raw, err := pkcs8.MarshalPrivateKey(client.PrivateKey, []byte(passphrase), nil)
	return clientInput{"origin": origin, "cert": certtest.PEM(client.Leaf), "key": encode(t, "ENCRYPTED PRIVATE KEY", raw, err), "passphrase": passphrase}
}

func pfxInput(t *testing.T, origin string, client tls.Certificate) clientInput {
	raw, err := pkcs12.Modern.Encode(client.PrivateKey, client.Leaf, nil, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return clientInput{"origin": origin, "pfx": base64.StdEncoding.EncodeToString(raw), "passphrase": passphrase}
}

// secrets returns what no answer and no log line may contain: lines of keys and files, and the passphrase.
func (c clientInput) secrets() (parts []string) {
	lines := strings.Split(c["key"], "\n")
	if len(lines) > 2 {
		parts = append(parts, lines[1])
	}
	if c["pfx"] != "" {
		parts = append(parts, c["pfx"][40:100])
	}
	return append(parts, passphrase)
}

// clientCerts are the sites and the worker of a test of client certificates.
type clientCerts struct {
	*testWorker
	servers, clients certtest.Authority
	robot            tls.Certificate
}

func newClientCerts(t *testing.T) *clientCerts {
	t.Helper()
	c := &clientCerts{servers: certtest.NewAuthority(t, "Servers"), clients: certtest.NewAuthority(t, "Clients")}
	c.robot = c.clients.Issue(t, "robot", time.Now().Add(time.Hour))
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(c.servers.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.testWorker = startTestWorker(t, cloudtest.New(t), func(c *app.Config) {
		c.WarmPool, c.CACertificates = []int{1}, []string{file}
	})
	return c
}

func (c *clientCerts) site(t *testing.T, auth tls.ClientAuthType) *certSite {
	t.Helper()
	return startCertSite(t, c.servers.Issue(t, "localhost", time.Now().Add(time.Hour)), c.clients, auth)
}

// browserJSON returns the settings of a launch with a list.
func (c *clientCerts) browserJSON(t *testing.T, list []clientInput, more map[string]any) string {
	t.Helper()
	settings := map[string]any{}
	if list != nil {
		settings["clientCertificates"] = list
	}
	maps.Copy(settings, more)
	for _, input := range list {
		c.secrets = append(c.secrets, input.secrets()...)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// launchBy launches a profile with these settings, and checks that no answer shows a secret.
func (c *clientCerts) launchBy(t *testing.T, profile uuid.UUID, settings string) (workerapi.BrowserSession, *tab) {
	t.Helper()
	status, text := c.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":%s}`, profile, settings), "X-API-Key", workerKey)
	if status != http.StatusCreated {
		t.Fatalf("the launch was answered with %d %s\n%s", status, text, c.log)
	}
	launched := decode[workerapi.BrowserSessionResponse](t, text).Data
	for _, path := range []string{"/sessions", "/sessions/" + launched.Id.String(), "/fleet/status"} {
		_, more := c.call(t.Context(), t, "GET", path, "", "X-API-Key", workerKey)
		text = append(text, more...)
	}
	c.assertNoSecret(t, text)
	return launched, openTab(t, *launched.WebSocketDebuggerUrl)
}

func (c *clientCerts) assertNoSecret(t *testing.T, text []byte) {
	t.Helper()
	for _, secret := range c.secrets {
		if secret != workerKey && secret != cloudtest.Key && len(secret) < 70 && strings.Contains(string(text), secret) {
			t.Errorf("an answer contains the secret %.12s...", secret)
		}
	}
}

// assertNotOnDisk fails if the data of the worker contains a certificate database or a key.
func (c *clientCerts) assertNotOnDisk(t *testing.T, profile uuid.UUID) {
	t.Helper()
	for name, content := range savedFiles(t, filepath.Join(c.config.DataDir, "profiles"), profile) {
		if strings.Contains(name, ".pki") || strings.HasSuffix(name, "cert9.db") {
			t.Errorf("the saved data contains %s", name)
		}
		for _, secret := range c.secrets {
			if secret != "" && strings.Contains(content, secret) {
				t.Errorf("%s contains the secret %.12s...", name, secret)
			}
		}
	}
}

// savedFiles returns the files of a profile's data that is saved in a directory, by name.
func savedFiles(t *testing.T, dir string, profile uuid.UUID) map[string]string {
	t.Helper()
	saved, err := profiledata.OpenLocal(profiledata.LocalOptions{Dir: dir, Versions: 1, MaxBytes: 1 << 30, Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := saved.Reader(profile).Restore(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := root.ReadFile(name)
		found[name] = string(content)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no data is saved in %s (%v)", dir, err)
	}
	return found
}

// tunnelProxy is a proxy whose tunnels all lead to one site.
type tunnelProxy struct {
	url     string
	tunnels atomic.Int64
}

func startTunnelProxy(t *testing.T, site *certSite) *tunnelProxy {
	t.Helper()
	p := &tunnelProxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		destination, err := net.Dial("tcp", strings.TrimPrefix(site.origin, "https://"))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer destination.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		p.tunnels.Add(1)
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(destination, client)
			_ = destination.Close()
		}()
		_, _ = io.Copy(client, destination)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}
