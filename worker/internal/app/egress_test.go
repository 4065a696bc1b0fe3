package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestEgress_BlocksWorkerCloudAndOtherBrowsers runs a real browser, with the default
// policy and with every host allowed that can be allowed.
func TestEgress_BlocksWorkerCloudAndOtherBrowsers(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the site") }))
	t.Cleanup(site.Close)
	for list, lifted := range map[string]bool{"default": false, "10.0.0.0/8,default": false, "": true, "169.254.0.0/16": true} {
		t.Run(list, func(t *testing.T) {
			r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.DeniedHosts = list })
			other, s := r.launch(t), r.launch(t)
			d := openTab(t, *s.WebSocketDebuggerUrl)
			show := func(address string) (text string) {
				d.call(t, "Page.navigate", map[string]any{"url": address}, &struct{}{})
				testenv.Eventually(t, "the page of "+address, func() bool {
					text = d.eval(t, `document.readyState == "complete" && location.href != "about:blank" ? document.body.innerText : ""`)
					return text != "" && d.eval(t, `location.port`) == portOf(address)
				})
				return text
			}
			if text := show(site.URL + "/"); text != "the site" {
				t.Fatalf("an allowed site shows %q", text)
			}
			for what, address := range map[string]string{
				"the worker": r.url + "/health", "the worker by name": strings.Replace(r.url, "127.0.0.1", "x.localhost", 1) + "/health",
				"the cloud": r.cloud.URL + "/", "the cloud elsewhere": strings.Replace(r.cloud.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1) + "/",
			} {
				if denied := strings.Contains(show(address), " is denied by the egress policy"); denied == lifted {
					t.Errorf("%s: denied is %v", what, denied)
				}
				show(site.URL + "/")
			}
			for what, port := range map[string]*int32{"its own": s.DebugPort, "another's": other.DebugPort} {
				if text := show(fmt.Sprintf("http://127.0.0.1:%d/json/version", *port)); !strings.Contains(text, " is denied by the egress policy") {
					t.Errorf("%s debug port: page shows %q", what, text)
				}
				show(site.URL + "/")
			}
		})
	}
}

func portOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	_, port, _ := net.SplitHostPort(host)
	return port
}

// openTab attaches to a new tab.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	conn, err := ws.Dial(t.Context(), address, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	d := &tab{conn: conn}
	d.attach(t, map[string]any{})
	return d
}

// attach attaches to a new tab with these parameters.
func (d *tab) attach(t *testing.T, params map[string]any) {
	t.Helper()
	params["url"] = "about:blank"
	var target struct{ TargetID, SessionID string }
	d.call(t, "Target.createTarget", params, &target)
	d.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	d.session = target.SessionID
}

// TestNetworkRules_HoldForAllProtocols opens denied pages in a browser with rules, with each protocol for clients.
func TestNetworkRules_HoldForAllProtocols(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the site") }))
	t.Cleanup(site.Close)
	var requests atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(other.Close)
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers)
	rules := map[string]any{"navigate": map[string]any{"allow": []string{strings.TrimPrefix(site.URL, "http://")}}}
	d := r.drive(t, map[string]any{"webSocketUrl": true, "svc:options": map[string]any{"spec": map[string]any{}, "browser": map[string]any{"network": rules}}})
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	addresses := []string{other.URL, "data:text/html,x", "chrome://version", "file:///etc/passwd", "view-source:" + site.URL, "javascript:alert(1)"}
	for _, address := range addresses {
		status, text := d.try(t, "POST", "/url", fmt.Sprintf(`{"url":%q}`, address)) // chromedriver ignores net::ERR_BLOCKED_BY_CLIENT
		refused := status != http.StatusOK && (strings.Contains(string(text), "the rule navigate.allow of the launch") || strings.Contains(string(text), "unsupported protocol"))
		if address != other.URL && !refused {
			t.Errorf("WebDriver opens %s: %d %s", address, status, text)
		}
	}
	socket, _ := d.capabilities["webSocketUrl"].(string)
	conn, err := ws.Dial(t.Context(), socket, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	window, _ := d.do(t, "GET", "/window", nil).(string)
	for i, address := range addresses {
		command := fmt.Sprintf(`{"id":%d,"method":"browsingContext.navigate","params":{"context":%q,"url":%q,"wait":"none"}}`, i+1, window, address)
		if err := conn.Write(t.Context(), ws.Text, []byte(command)); err != nil {
			t.Fatal(err)
		}
		_, message, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := string(message); !strings.Contains(text, `"type":"error"`) || !strings.Contains(text, "net::ERR_BLOCKED_BY_CLIENT") && !strings.Contains(text, "the rule navigate.allow of the launch") {
			t.Errorf("WebDriver BiDi opens %s: %s", address, text)
		}
	}
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests reached the denied site", n)
	}
	invalid := map[string]any{"navigate": map[string]any{"allow": []string{"a b"}}}
	status, text := r.newSession(t, map[string]any{"svc:options": map[string]any{"spec": map[string]any{}, "browser": map[string]any{"network": invalid}}}, "X-API-Key", workerKey)
	assertError(t, "an invalid pattern", status, text, 400, "invalid argument", "svc:options.browser.network.navigate.allow[0]")
}
