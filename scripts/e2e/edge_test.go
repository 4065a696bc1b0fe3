package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// edge is a load balancer with TLS in front of two workers, with the configuration
// in scripts/edge.
type edge struct {
	name    string
	url     string
	workers [2]*worker // worker-1, which trusts the edge, and worker-2, which does not; nil if the test uses fake workers

	balancer  int    // index in balancers
	dir, port string // the directory of its files and the port that it listens on
	roots     *x509.CertPool
	rootCA    string // the same certificate as a file
}

// balancers are the load balancers, each with its configuration and arguments.
var balancers = []struct {
	name, example string
	arguments     func(config, dir string) []string
	replace       []string // replacements that only the test needs
}{
	{"haproxy", "haproxy.cfg", func(config, _ string) []string { return []string{"-db", "-f", config} }, []string{"bind :443", "bind 127.0.0.1:PORT"}},
	{"nginx", "nginx.conf", func(config, dir string) []string {
		return []string{"-p", dir, "-c", config, "-e", "stderr", "-g", "daemon off; master_process off; pid " + dir + "/nginx.pid;"}
	}, []string{
		"listen 443", "listen 127.0.0.1:PORT", "server_name edge.example", "server_name localhost", "/var/log/nginx/", "DIR/",
		"http {", "http { client_body_temp_path DIR/1; proxy_temp_path DIR/2; fastcgi_temp_path DIR/3; uwsgi_temp_path DIR/4; scgi_temp_path DIR/5;",
	}},
	{"caddy", "Caddyfile", func(config, _ string) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", config}
	}, []string{"https://edge.example", "https://localhost:PORT"}},
}

// startEdge starts the load balancer with this index and its workers.
func startEdge(t *testing.T, index int, c *cloud, key string) *edge {
	t.Helper()
	e := newEdge(t, index)
	shared := "API_KEY=wrk_" + uuid.NewString()
	for i, trusted := range []string{"127.0.0.1/32", "10.9.9.9/32"} {
		e.workers[i] = startWorker(t, c, key, shared, completeBrowsers, "PUBLIC_URL="+e.url, "WORKER_ID="+e.workerID(i), "TRUSTED_PROXIES="+trusted)
	}
	e.start(t, e.workers[0].address, e.workers[1].address)
	return e
}

// newEdge returns a load balancer that is not started.
func newEdge(t *testing.T, index int) *edge {
	t.Helper()
	e := &edge{name: balancers[index].name, balancer: index, dir: publicDir(t), port: freePort(t)}
	e.url, e.rootCA, e.roots = "https://localhost:"+e.port, filepath.Join(e.dir, "edge.crt"), certificate(t, e.dir)
	return e
}

// start starts the load balancer in front of workers at these addresses.
func (e *edge) start(t *testing.T, first, second string) {
	t.Helper()
	balancer, dir := balancers[e.balancer], e.dir
	config := filepath.Join(dir, balancer.example)
	text, err := os.ReadFile(filepath.Join(root, "scripts", "edge", balancer.example))
	if err != nil {
		t.Fatal(err)
	}
	pairs := append(slices.Clone(balancer.replace), "10.0.0.11:38923", first, "10.0.0.12:38923", second, "/etc/svc/", dir+"/")
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s does not contain %q", balancer.example, pairs[i])
		}
		text = []byte(strings.ReplaceAll(string(text), pairs[i], strings.NewReplacer("PORT", e.port, "DIR", dir).Replace(pairs[i+1])))
	}
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	e.run(t, balancer.arguments(config, dir), dir)
}

// workerID returns the WORKER_ID of a worker in the configurations. The cloud knows
// it, too, so every edge has its own account.
func (e *edge) workerID(worker int) string { return []string{"worker-1", "worker-2"}[worker] }

func (e *edge) run(t *testing.T, arguments []string, dir string) {
	t.Helper()
	path, err := exec.LookPath(e.name)
	if err != nil {
		path = "/usr/sbin/" + e.name
	}
	cmd := exec.Command(path, arguments...)
	cmd.Dir = dir
	running := startCommand(t, cmd, filepath.Join(dir, "edge.log"), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	t.Cleanup(running.kill)
	client := e.client(t, "")
	eventually(t, readyTimeout, e.name+" forwards requests", func() error {
		if running.hasExited() {
			t.Fatalf("%s ended:\n%s", e.name, running.logText())
		}
		for i, w := range e.workers {
			answer, err := client.Get(e.url + "/w/" + e.workerID(i) + "/health")
			if err != nil {
				return err
			}
			answer.Body.Close()
			if w != nil && answer.StatusCode != http.StatusOK {
				return errors.New(answer.Status)
			}
		}
		return nil
	})
}

// client returns a client that trusts the edge's certificate, does not follow
// redirects and connects from the given address of this machine.
func (e *edge) client(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: e.roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// send sends a request with one header to the edge.
func (e *edge) send(t *testing.T, method, path, body, header, value string) (status int, text []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(header, value)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := e.client(t, "").Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

// certificate creates a certificate for localhost and writes it to dir, as edge.crt
// and edge.key, and both as edge.pem. It returns the pool of trusted certificates.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, content := range map[string][]byte{"edge.crt": crt, "edge.key": secret, "edge.pem": append(append([]byte{}, crt...), secret...)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(crt)
	return roots
}
