package view_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// fixture is a watched browser, the browser of a viewer, and the site that the
// watched browser shows: a green page with a text field as large as the window, which
// sends its events to the site.
type fixture struct {
	*testServer
	watched       *browser.Browser
	viewerBrowser *browser.Browser
	received      func() string
}

// changes can change the browser; each returns another route.
func newFixture(t *testing.T, headless bool, prefix string, changes ...func(*access.Browser) access.Route) *fixture {
	t.Helper()
	said := make(chan string, 1000)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			said <- r.URL.Query().Get("said")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Watched</title><style>
			* { margin: 0 } textarea { width: 100vw; height: 100vh; border: 0; outline: 0; background: #0c0; color: #0c0; caret-color: #0c0; resize: none }
			</style><textarea spellcheck="false"></textarea><script>
			let last = Promise.resolve(); // in order
			const say = (text) => { last = last.then(() => fetch('?said=' + encodeURIComponent(text), {method: 'POST'})); };
			addEventListener('mousedown', () => say('[click]'));
			addEventListener('keydown', (e) => say(e.key.length === 1 ? e.key : '[' + e.key + ']'));
			const field = document.querySelector('textarea');
			field.addEventListener('input', () => { if (field.value.endsWith('from here')) say('[pasted]'); });
			</script>`)
	}))
	t.Cleanup(site.Close)
	launcher := browsertest.NewLauncher(t)
	start := func(launchID, address string, headless bool) *browser.Browser {
		return launcher(browser.Spec{LaunchID: launchID, Headless: headless, Emulation: settings.Emulation{Screen: &settings.Size{Width: 1280, Height: 800}}, Options: settings.Options{StartURLs: []string{address}}})
	}
	s := &fixture{watched: start(launch, site.URL+"/", headless)}
	b := access.Browser{
		BrowserVersion: s.watched.Build.Major, Headless: headless, DebugPort: s.watched.DebugPort,
		DebugPath: s.watched.WebSocketPath, DevTools: true, Done: s.watched.Done(), Calls: s.watched.Calls(),
	}
	if d, ok := s.watched.Display(); ok {
		b.Display = new(access.Display(d))
	}
	routes := otherRoutes(t, s.watched, func() *testServer { return s.testServer })
	for _, change := range changes {
		routes = append(routes, change(&b))
	}
	s.testServer = newTestServer(t, prefix, view.Options{Streamer: rfbStreamer{}}, b, routes...)
	s.viewerBrowser = start(uuid.NewString(), "about:blank", true)
	var all strings.Builder
	s.received = func() string {
		for {
			select {
			case text := <-said:
				all.WriteString(text)
			default:
				return all.String()
			}
		}
	}
	return s
}

// url returns a URL of the launch behind a path prefix.
func (s *fixture) url(prefix, rest string) string {
	return "http://" + s.address + prefix + "/browsers/" + launch + rest
}
