package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
