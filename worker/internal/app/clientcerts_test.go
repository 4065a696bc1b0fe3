package app_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestClientCertificates_PresentedToNamedOrigins launches both engines with client certificates in all formats.
func TestClientCertificates_PresentedToNamedOrigins(t *testing.T) {
	c := newClientCerts(t)
	required, ofFile, encrypted, other := c.site(t, tls.RequireAndVerifyClientCert), c.site(t, tls.RequireAndVerifyClientCert), c.site(t, tls.RequireAndVerifyClientCert), c.site(t, tls.RequestClientCert)
	expired := startCertSite(t, c.servers.Issue(t, "localhost", time.Now().Add(-time.Minute)), c.clients, tls.RequestClientCert)
	wrongHost := startCertSite(t, c.servers.Issue(t, "otherhost", time.Now().Add(time.Hour)), c.clients, tls.RequestClientCert)
	refusing := c.site(t, tls.RequireAndVerifyClientCert)
	list := []clientInput{
		plainInput(t, required.origin, c.robot), pfxInput(t, ofFile.origin, c.robot), encryptedInput(t, encrypted.origin, c.robot),
		plainInput(t, expired.origin, c.robot), plainInput(t, wrongHost.origin, c.robot),
		plainInput(t, refusing.origin, c.clients.Issue(t, "late", time.Now().Add(-time.Minute))),
	}
	sites := map[string]*certSite{"required": required, "PKCS #12": ofFile, "encrypted": encrypted, "other": other, "expired": expired, "wrong host": wrongHost, "refusing": refusing}
	const robot, failed = "robot over HTTP/2.0", "net::ERR_"
	for _, engine := range []string{"chromium", "headless-shell"} {
		for ignore, want := range map[bool]map[string]string{
			false: {"required": robot, "PKCS #12": robot, "encrypted": robot, "other": "nobody over HTTP/2.0", "expired": "net::ERR_CERT_DATE_INVALID",
				"wrong host": "net::ERR_CERT_COMMON_NAME_INVALID", "refusing": failed},
			true: {"required": robot, "PKCS #12": robot, "encrypted": robot, "other": "nobody over HTTP/2.0", "expired": robot, "wrong host": robot, "refusing": failed},
		} {
			name := fmt.Sprintf("%s, ignoreHTTPSErrors %t", engine, ignore)
			profile := c.cloud.Profile(c.version, func(config *cloudapi.ProfileConfig) { config.IgnoreHTTPSErrors = new(ignore) })
			s, page := c.launchBy(t, profile, c.browserJSON(t, list, map[string]any{"engine": engine}))
			if !slices.Contains(s.Start.ColdReasons, "clientCertificates") || s.Start.Warm {
				t.Errorf("%s: start %+v", name, s.Start)
			}
			got := map[string]string{}
			for name, site := range sites {
				got[name] = page.shows(t, site.origin)
				if site == refusing && strings.HasPrefix(got[name], failed) { // the error depends on when the server closes the connection
					got[name] = failed
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: pages (-want +got):\n%s", name, diff)
			}
			if answer := page.connects(t, required.origin); answer != "open" {
				t.Errorf("%s: the WebSocket: %s", name, answer)
			}
			c.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
			if !ignore && expired.presented.Load()+wrongHost.presented.Load() > 0 {
				t.Errorf("%s: servers with an invalid certificate got a client certificate", name)
			}
			expired.presented.Store(0)
			wrongHost.presented.Store(0)
		}
	}
}

// TestClientCertificates_LaunchReplacesProfile: the list of a launch replaces that of the
// profile, also the empty one. A profile that keeps data trusts only the authority of its
// present launch.
func TestClientCertificates_LaunchReplacesProfile(t *testing.T) {
	c := newClientCerts(t)
	first, second := c.site(t, tls.RequestClientCert), c.site(t, tls.RequestClientCert)
	stored := plainInput(t, first.origin, c.clients.Issue(t, "profile", time.Now().Add(time.Hour)))
	c.secrets = append(c.secrets, stored.secrets()...)
	profile := c.cloud.Profile(c.version, func(config *cloudapi.ProfileConfig) {
		config.Persist = true
		config.ClientCertificates = cloudapi.LaunchClientCertificates{{Origin: first.origin, Cert: stored["cert"], Key: stored["key"]}}
	})
	for _, tc := range []struct {
		name string
		list []clientInput
		want [2]string
	}{
		{"none", nil, [2]string{"profile", "nobody"}},
		{"own", []clientInput{plainInput(t, second.origin, c.robot)}, [2]string{"nobody", "robot"}},
		{"empty", []clientInput{}, [2]string{"nobody", "nobody"}},
		{"none again", nil, [2]string{"profile", "nobody"}},
	} {
		s, page := c.launchBy(t, profile, c.browserJSON(t, tc.list, nil))
		for i, site := range []*certSite{first, second} {
			if got := page.shows(t, site.origin+"/?"+tc.name); got != tc.want[i]+" over HTTP/2.0" {
				t.Errorf("%s: site %d shows %q, want %q", tc.name, i+1, got, tc.want[i])
			}
		}
		ended := c.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		if ended.DataSaved == nil || !*ended.DataSaved {
			t.Errorf("%s: the data was not saved", tc.name)
		}
		c.assertNotOnDisk(t, profile)
	}
}

// TestClientCertificates_RefusedByField: errors name the field, and repeat no secret.
func TestClientCertificates_RefusedByField(t *testing.T) {
	c := newClientCerts(t)
	const origin = "https://host.example"
	good := plainInput(t, origin, c.robot)
	with := func(input clientInput, pairs ...string) clientInput {
		changed := maps.Clone(input)
		for i := 0; i < len(pairs); i += 2 {
			changed[pairs[i]] = pairs[i+1]
		}
		return changed
	}
	profile := c.cloud.Profile(c.version)
	for name, tc := range map[string]struct {
		list  []clientInput
		field string
	}{
		"passphrase of PKCS #12": {[]clientInput{with(pfxInput(t, origin, c.robot), "passphrase", "wrong")}, "browser.clientCertificates[0].passphrase"},
		"passphrase of PEM":      {[]clientInput{good, with(encryptedInput(t, origin+":1", c.robot), "passphrase", "wrong")}, "browser.clientCertificates[1].passphrase"},
		"key of another":         {[]clientInput{with(good, "key", plainInput(t, origin, c.clients.Issue(t, "other", time.Now().Add(time.Hour)))["key"])}, "browser.clientCertificates[0].key"},
		"origin twice":           {[]clientInput{good, with(good, "origin", "https://HOST.example:443")}, "browser.clientCertificates[1].origin"},
		"origin with a pattern":  {[]clientInput{with(good, "origin", "https://*.example")}, "browser.clientCertificates[0].origin"},
		"unknown member":         {[]clientInput{with(good, "keyPath", "/etc/key.pem")}, "browser.clientCertificates[0].keyPath"},
		"long key":               {[]clientInput{with(good, "key", good["key"]+strings.Repeat(" ", 16384))}, "browser.clientCertificates[0].key"},
	} {
		body := fmt.Sprintf(`{"profileId":%q,"browser":%s}`, profile, c.browserJSON(t, tc.list, nil))
		status, text := c.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		got := decode[failure](t, text).Error
		if status != http.StatusBadRequest || len(got.Details) != 1 || got.Details[0].Field != tc.field {
			t.Errorf("%s: answered %d %s, want an error of %s", name, status, text, tc.field)
		}
		c.assertNoSecret(t, text)
	}
	c.cloud.Await(t, 0, 0)
}

// TestClientCertificates_OtherLaunches: /launch and WebDriver accept the list as REST does, and /mcp refuses it by name.
func TestClientCertificates_OtherLaunches(t *testing.T) {
	c := newClientCerts(t)
	site := c.site(t, tls.RequireAndVerifyClientCert)
	settings := json.RawMessage(c.browserJSON(t, []clientInput{pfxInput(t, site.origin, c.robot)}, nil))
	launched := map[string]any{"profileId": c.cloud.Profile(c.version), "browser": settings}
	env, err := json.Marshal(launched)
	if err != nil {
		t.Fatal(err)
	}
	socket := "ws" + strings.TrimPrefix(c.url, "http") + "/launch?env=" + base64.RawURLEncoding.EncodeToString(env)
	conn, err := ws.Dial(t.Context(), socket, http.Header{"X-Api-Key": {cloudtest.Key}}, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	page := &tab{conn: conn}
	page.attach(t, map[string]any{})
	if got := page.shows(t, site.origin); got != "robot over HTTP/2.0" {
		t.Errorf("/launch: the page shows %q", got)
	}
	driver := c.drive(t, map[string]any{"svc:options": launched})
	driver.do(t, "POST", "/url", map[string]any{"url": site.origin})
	if got := driver.do(t, "GET", "/title", nil); got != "robot over HTTP/2.0" {
		t.Errorf("WebDriver: the page shows %q", got)
	}
	c.openMCP(t, workerKey).refuse(t, "launch_browser", map[string]any{"clientCertificates": []any{}}, "clientCertificates")
}

// TestClientCertificates_ThroughProxies: the proxies of a profile and of a browser context lead to the named origin.
func TestClientCertificates_ThroughProxies(t *testing.T) {
	c := newClientCerts(t)
	site := startCertSite(t, c.servers.Issue(t, "site.test", time.Now().Add(time.Hour)), c.clients, tls.RequireAndVerifyClientCert)
	ofProfile, ofContext := startTunnelProxy(t, site), startTunnelProxy(t, site)
	profile := c.cloud.Profile(c.version, func(config *cloudapi.ProfileConfig) {
		config.Proxy = &cloudapi.LaunchProxy{Server: ofProfile.url}
	})
	const origin = "https://site.test:8443"
	s, page := c.launchBy(t, profile, c.browserJSON(t, []clientInput{plainInput(t, origin, c.robot)}, nil))
	if got := page.shows(t, origin); got != "robot over HTTP/2.0" || ofProfile.tunnels.Load() == 0 {
		t.Errorf("the page shows %q, after %d tunnels of the profile's proxy", got, ofProfile.tunnels.Load())
	}
	conn, err := ws.Dial(t.Context(), *s.WebSocketDebuggerUrl, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	var created struct{ BrowserContextID string }
	d := &tab{conn: conn}
	d.call(t, "Target.createBrowserContext", map[string]any{"proxyServer": ofContext.url}, &created)
	d.attach(t, map[string]any{"browserContextId": created.BrowserContextID})
	if got := d.shows(t, origin); got != "robot over HTTP/2.0" || ofContext.tunnels.Load() == 0 {
		t.Errorf("the page of the context shows %q, after %d tunnels of its proxy", got, ofContext.tunnels.Load())
	}
}
