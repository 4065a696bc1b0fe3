package app_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// startTLS starts a server with a certificate of the authority, and returns its URL.
func startTLS(t *testing.T, authority certtest.Authority) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "<title>shown</title>")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "localhost", time.Now().Add(time.Hour))}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return fmt.Sprintf("https://localhost:%d", server.Listener.Addr().(*net.TCPAddr).Port)
}

// navigate opens a page, and returns the error of the browser; "" for none.
func (d *tab) navigate(t *testing.T, address string) string {
	t.Helper()
	var answer struct{ ErrorText string }
	d.call(t, "Page.navigate", map[string]any{"url": address}, &answer)
	return answer.ErrorText
}

// TestTrust_CertificateAuthorities launches with the authorities of the worker, of a profile
// and of a launch, which replace those of the profile.
func TestTrust_CertificateAuthorities(t *testing.T) {
	const unknown = "net::ERR_CERT_AUTHORITY_INVALID"
	ofWorker, ofProfile, ofLaunch := certtest.NewAuthority(t, "Worker"), certtest.NewAuthority(t, "Profile"), certtest.NewAuthority(t, "Launch")
	sites := []string{startTLS(t, ofWorker), startTLS(t, ofProfile), startTLS(t, ofLaunch)}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(ofWorker.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) {
		c.WarmPool, c.CACertificates, c.AllowedHosts = []int{1}, []string{file}, "127.0.0.0/8,[::1]"
	})
	plain := r.cloud.Profile(r.version)
	trusting := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.CaCertificates = sharedapi.CaCertificates{ofProfile.PEM()} })
	override, err := json.Marshal(map[string]any{"caCertificates": []string{ofLaunch.PEM()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		profile fmt.Stringer
		browser string
		reasons []string
		want    []string // the errors of the three sites
	}{
		{"worker", plain, `{}`, nil, []string{"", unknown, unknown}},
		{"profile", trusting, `{}`, []string{"caCertificates"}, []string{"", "", unknown}},
		{"launch", trusting, string(override), []string{"caCertificates"}, []string{"", unknown, ""}},
	} {
		s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":%s}`, tc.profile, tc.browser))
		d := openTab(t, *s.WebSocketDebuggerUrl)
		var got []string
		for _, site := range sites {
			got = append(got, d.navigate(t, site))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: errors of the sites of worker, profile and launch (-want +got):\n%s", tc.name, diff)
		}
		if tc.reasons != nil && !cmp.Equal(s.Start, workerapi.BrowserStart{ColdReasons: tc.reasons}) {
			t.Errorf("%s: start %+v, want the reasons %v", tc.name, s.Start, tc.reasons)
		}
	}
}
