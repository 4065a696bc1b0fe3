package app

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/install"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// companyProxy is a proxy that records its targets and connects all of them to one address.
type companyProxy struct {
	*httptest.Server
	address string

	mu      sync.Mutex
	targets []string
}

func newCompanyProxy(t *testing.T, address string) *companyProxy {
	p := &companyProxy{address: address}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements http.Handler.
func (p *companyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.targets = append(p.targets, r.Method+" "+r.Host)
	p.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", p.address)
	if err != nil || r.Method != http.MethodConnect {
		http.Error(w, "refused", http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// uses reports whether a request was for the target.
func (p *companyProxy) uses(target string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.targets, target)
}

// reSigned returns a server that terminates TLS for a service, as a proxy that re-signs TLS
// does, and a file with its certificate authority.
func reSigned(t *testing.T, service string) (server *httptest.Server, file string) {
	t.Helper()
	address, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(address))
	t.Cleanup(server.Close)
	file = filepath.Join(t.TempDir(), "company.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return server, file
}

// runWorker runs a command of the worker as a process with only this environment: a process
// reads the variables of proxies once.
func runWorker(t *testing.T, output io.Writer, args []string, environment ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	startWorker(t, output, command, environment...)
	return command
}

// startWorker starts a command of the worker with only this environment, until the test ends.
func startWorker(t *testing.T, output io.Writer, command *exec.Cmd, environment ...string) {
	t.Helper()
	command.Env = append([]string{workerVariable + "=1", "PATH=" + os.Getenv("PATH"), "SVC_KEY=" + cloudtest.Key, "DATA_DIR=" + testenv.PublicTempDir(t)}, environment...)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
}

// TestServe_BehindCompanyProxy runs workers whose cloud is behind a proxy that re-signs TLS.
func TestServe_BehindCompanyProxy(t *testing.T) {
	fake := cloudtest.New(t)
	server, authorities := reSigned(t, fake.URL)
	const https = "SVC_CLOUD_URL=https://example.com"
	plain := strings.Replace(fake.URL, "127.0.0.1", "0.0.0.0", 1) // unlike 127.0.0.1, no exception of the proxy
	for name, tc := range map[string]struct {
		environment []string
		target      string // of the proxy; empty for none
		ready       bool
		message     string // in the log
	}{
		"trusts CA_CERTIFICATES":  {[]string{https, "CA_CERTIFICATES=" + authorities}, "CONNECT example.com:443", true, ""},
		"without CA_CERTIFICATES": {[]string{https}, "CONNECT example.com:443", false, "certificate signed by unknown authority"},
		"HTTP_PROXY":              {[]string{"SVC_CLOUD_URL=" + plain}, "POST " + strings.TrimPrefix(plain, "http://"), false, ""},
		"NO_PROXY":                {[]string{"SVC_CLOUD_URL=" + plain, "NO_PROXY=0.0.0.0"}, "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, log, port := newCompanyProxy(t, server.Listener.Addr().String()), &testenv.Log{}, testenv.FreePort(t)
			runWorker(t, log, []string{"serve"}, append(tc.environment, fmt.Sprintf("PORT=%d", port), "HOST=127.0.0.1", "WARM_POOL=0",
				"HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL)...)
			testenv.Eventually(t, "the state of the worker", func() bool {
				if tc.target != "" && !proxy.uses(tc.target) || !strings.Contains(log.String(), tc.message) {
					return false
				}
				answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
				if err != nil {
					return false
				}
				defer answer.Body.Close()
				return (answer.StatusCode == http.StatusOK) == tc.ready
			})
			if proxy.mu.Lock(); tc.target == "" && len(proxy.targets) > 0 {
				t.Errorf("the proxy was used for %v", proxy.targets)
			}
			proxy.mu.Unlock()
			if t.Failed() {
				t.Log(log)
			}
		})
	}
}

// TestBrowsersList_BehindCompanyProxy lists a catalog behind a proxy that re-signs TLS.
func TestBrowsersList_BehindCompanyProxy(t *testing.T) {
	catalog, log := cloudtest.NewCatalog(t), &testenv.Log{}
	system, arch := install.Platform()
	catalog.Publish("99.0.4844.51", system, arch, []byte("archive"))
	server, authorities := reSigned(t, catalog.URL)
	proxy := newCompanyProxy(t, server.Listener.Addr().String())
	command := runWorker(t, log, []string{"browsers", "list"}, "SVC_CLOUD_URL=https://example.com", "HTTPS_PROXY="+proxy.URL, "CA_CERTIFICATES="+authorities)
	if err := command.Wait(); err != nil || !proxy.uses("CONNECT example.com:443") || !strings.Contains(log.String(), "99.0.4844.51") {
		t.Errorf("%v; printed %s", err, log)
	}
}
