package browser_test

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
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// startTLS starts a server with this certificate, and returns its URL. Its WebSocket is at
// /socket.
func startTLS(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/socket" {
			return
		}
		if socket, err := ws.Accept(w, r, ws.Options{Origins: []string{"*"}}); err == nil {
			socket.CloseNow()
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return fmt.Sprintf("https://localhost:%d", server.Listener.Addr().(*net.TCPAddr).Port)
}

// assertLoads loads a page and opens a WebSocket. problem is the error of Chromium; "" for none.
func (c client) assertLoads(t *testing.T, name, address, problem string) {
	t.Helper()
	page := c.open(t, "about:blank")
	var answer struct{ ErrorText string }
	unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": address}), &answer)
	if answer.ErrorText != problem {
		t.Errorf("%s: the page fails with %q, want %q", name, answer.ErrorText, problem)
	}
	var opened bool
	c.eval(t, c.open(t, "about:blank"), fmt.Sprintf(`new Promise(done => {
		const socket = new WebSocket(%q);
		socket.onopen = () => done(true);
		socket.onerror = () => done(false);
	})`, strings.Replace(address, "https", "wss", 1)+"/socket"), &opened)
	if opened != (problem == "") {
		t.Errorf("%s: the WebSocket was opened: %t", name, opened)
	}
}

func TestCACertificates_TrustedWithHostAndExpiryChecked(t *testing.T) {
	ofWorker, ofLaunch, unknown := certtest.NewAuthority(t, "Worker"), certtest.NewAuthority(t, "Launch"), certtest.NewAuthority(t, "Unknown")
	soon := time.Now().Add(time.Hour)
	sites := map[string][2]string{
		"authority of the launch":  {startTLS(t, ofLaunch.Issue(t, "localhost", soon)), ""},
		"authority of the worker":  {startTLS(t, ofWorker.Issue(t, "localhost", soon)), ""},
		"unknown authority":        {startTLS(t, unknown.Issue(t, "localhost", soon)), "net::ERR_CERT_AUTHORITY_INVALID"},
		"certificate of otherhost": {startTLS(t, ofLaunch.Issue(t, "otherhost", soon)), "net::ERR_CERT_COMMON_NAME_INVALID"},
		"expired certificate":      {startTLS(t, ofLaunch.Issue(t, "localhost", time.Now().Add(-time.Minute))), "net::ERR_CERT_DATE_INVALID"},
	}
	r := newFixtureWith(t, func(o *browser.Options) {
		o.CACertificates, o.Isolation = []*x509.Certificate{ofWorker.Certificate}, &sandbox.Options{Disk: 1 << 30, Processes: 2000}
	})
	for i, build := range majorBuilds(t) {
		spec := r.spec(fmt.Sprint("authorities-", i))
		spec.Build, spec.CACertificates = build, []*x509.Certificate{ofLaunch.Certificate}
		c := dial(t, r.launch(t, spec))
		for name, site := range sites {
			c.assertLoads(t, fmt.Sprintf("%s %s, %s", build.Engine, build.Version, name), site[0], site[1])
		}
	}
}

// TestCACertificates_OfWorkerInWarmBrowser: a warm browser has the authorities of the worker
// from its start; those of a launch need a new browser.
func TestCACertificates_OfWorkerInWarmBrowser(t *testing.T) {
	ofWorker := certtest.NewAuthority(t, "Worker")
	site := startTLS(t, ofWorker.Issue(t, "localhost", time.Now().Add(time.Hour)))
	many := []*x509.Certificate{ofWorker.Certificate} // more than one page of a database holds
	for i := range 100 {
		many = append(many, certtest.NewAuthority(t, fmt.Sprint("Authority ", i)).Certificate)
	}
	r := newFixtureWith(t, func(o *browser.Options) {
		o.CACertificates, o.Isolation = many, &sandbox.Options{Disk: 1 << 30, Processes: 2000}
	})
	for _, build := range []builds.Build{r.build, headlessShell(t)} {
		spec := r.spec("warm-" + string(build.Engine))
		spec.Build, spec.Warm = build, true
		b := r.launch(t, spec)
		spec.CACertificates = many
		if reasons := spec.StartupSettings(); len(reasons) != 1 || reasons[0] != "caCertificates" {
			t.Errorf("settings that need a start: %v", reasons)
		}
		spec.CACertificates = nil
		if err := b.Configure(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		dial(t, b).assertLoads(t, string(build.Engine), site, "")
	}
}

// TestCACertificates_WithoutPrivateFiles: on such a host the home directory is outside of the sandbox.
func TestCACertificates_WithoutPrivateFiles(t *testing.T) {
	ofLaunch := certtest.NewAuthority(t, "Launch")
	site := startTLS(t, ofLaunch.Issue(t, "localhost", time.Now().Add(time.Hour)))
	r := newFixture(t)
	spec := r.spec("plain")
	spec.CACertificates = []*x509.Certificate{ofLaunch.Certificate}
	dial(t, r.launch(t, spec)).assertLoads(t, "no isolation", site, "")
}
