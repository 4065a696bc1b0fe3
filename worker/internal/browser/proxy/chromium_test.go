package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

const page = `<title>waiting</title><script>
	const socket = new WebSocket("ws://" + location.host + "/socket");
	socket.onopen = () => socket.send("hello");
	socket.onmessage = (m) => document.title = "socket received " + m.data;
	socket.onerror = () => document.title = "socket failed";
</script>`

// site serves a page that opens a WebSocket.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/socket" {
			fmt.Fprint(w, page)
			return
		}
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return
		}
		defer c.CloseNow()
		kind, message, err := c.Read(r.Context())
		if err == nil {
			c.Write(r.Context(), kind, append(message, " back"...))
		}
		c.Read(r.Context())
	}))
	t.Cleanup(server.Close)
	return server
}

func launch(t testing.TB, id, through string) *browser.Browser {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(dir, "launches")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(installed) == 0 {
		t.Fatalf("no Chromium is installed (%v); this test needs one", err)
	}
	b, err := l.Launch(t.Context(), browser.Spec{LaunchID: id, Build: installed[0], Headless: true, ProxyServer: through, Options: settings.Options{IgnoreHTTPSErrors: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Kill(context.Background()) })
	return b
}

// visit loads a page in a new tab and waits for its title.
func visit(t *testing.T, b *browser.Browser, address, title string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var target struct{ TargetID string }
	if err := b.CDP().Call(ctx, "", "Target.createTarget", map[string]any{"url": address}, &target); err != nil {
		t.Fatal(err)
	}
	var last string
	eventually(t, 15*time.Second, address+" shows "+title, func() bool {
		var info struct{ TargetInfo struct{ Title string } }
		if err := b.CDP().Call(ctx, "", "Target.getTargetInfo", map[string]any{"targetId": target.TargetID}, &info); err != nil {
			t.Fatal(err)
		}
		if info.TargetInfo.Title != last {
			last = info.TargetInfo.Title
			t.Logf("%s: %q", address, last)
		}
		return last == title
	})
}

func TestChromium_LoadsPagesThroughForwarder(t *testing.T) {
	origin := site(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := newFakeInternet(t, kind, hostOf(t, origin.URL))
			f, _ := startWithUpstream(t, o.Upstream)
			b := launch(t, "forwarded-"+kind, f.Address())
			for _, address := range []string{"http://site.test/", origin.URL + "/", "http://localhost:81/"} {
				visit(t, b, address, "socket received hello back")
			}
			logins, targets, _ := o.requests()
			if slices.Sort(logins); len(slices.Compact(logins)) != 1 || logins[0] != username+":"+password {
				t.Errorf("the upstream got credentials %q", logins)
			}
			for _, want := range []string{"site.test:80", hostOf(t, origin.URL), "localhost:81"} {
				if !slices.ContainsFunc(targets, func(s string) bool { return strings.HasPrefix(s, want) }) {
					t.Errorf("the upstream got no request for %s: %q", want, targets)
				}
			}
			command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.PID()))
			if err != nil || !strings.Contains(string(command), f.Address()) {
				t.Fatalf("failed to read the browser's command line: %v", err)
			}
			assertNoSecret(t, string(command), o.Upstream)
		})
	}
}

func TestChromium_ShowsNoLoginForRefusedCredentials(t *testing.T) {
	o := newFakeInternet(t, "http", "127.0.0.1:1")
	o.Password = "no-such-password"
	f, _ := startWithUpstream(t, o.Upstream)
	b := launch(t, "refused", f.Address())
	var target struct{ TargetID string }
	if err := b.CDP().Call(t.Context(), "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		t.Fatal(err)
	}
	var attached struct{ SessionID string }
	if err := b.CDP().Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		t.Fatal(err)
	}
	var answer struct{ ErrorText string }
	if err := b.CDP().Call(t.Context(), attached.SessionID, "Page.navigate", map[string]any{"url": "https://site.test/"}, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.ErrorText != "net::ERR_TUNNEL_CONNECTION_FAILED" {
		t.Errorf("https: %q", answer.ErrorText)
	}
}
