package rfb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// pages is the template of a site. /<colour> has that colour and a focused text
// field, whose events are logged in window.log. /moving-<colour> changes all the
// time.
const pages = `<!doctype html><title>%[1]s</title><body style="margin:0;background:%[1]s">
<textarea id=t autofocus style="position:fixed;left:0;top:0;width:50vw;height:50vh;font:16px monospace"></textarea>
<div id=d style="position:fixed;right:0;bottom:0;width:9px;height:9px"></div>
<script>
log = [];
for (const kind of ['keydown', 'mousedown', 'mousemove', 'wheel', 'paste', 'dblclick'])
	addEventListener(kind, e => log.push(kind + ' ' + (e.key || e.button || 0) + ' ' + (e.code || '')), true);
if (%[2]t) setInterval(() => d.style.background = d.style.background == 'red' ? 'lime' : 'red', 100);
</script>`

// fixture is a running browser with one page and a CDP session.
type fixture struct {
	*browser.Browser
	site    string
	session string
}

func newFixture(t *testing.T, headless bool, path string) *fixture {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		colour := strings.TrimPrefix(name, "moving-")
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, pages, colour, colour != name)
	}))
	t.Cleanup(site.Close)
	b := browsertest.NewLauncher(t)(browser.Spec{
		LaunchID:  "view",
		Headless:  headless,
		Emulation: settings.Emulation{Screen: &settings.Size{Width: 800, Height: 600}},
		Options:   settings.Options{StartURLs: []string{site.URL + path}},
	})
	s := &fixture{Browser: b, site: site.URL}
	s.attach(t, path)
	return s
}

func (s *fixture) call(t *testing.T, session, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.CDP().Call(ctx, session, method, params, result); err != nil {
		t.Fatal(err)
	}
}

// attach waits until the page at a path is loaded and attaches to it.
func (s *fixture) attach(t *testing.T, path string) {
	t.Helper()
	var id string
	testenv.Eventually(t, "the page "+path, func() bool {
		var list struct {
			TargetInfos []struct{ TargetID, Type, URL string }
		}
		s.call(t, "", "Target.getTargets", nil, &list)
		for _, target := range list.TargetInfos {
			if target.Type == "page" && target.URL == s.site+path {
				id = target.TargetID
			}
		}
		return id != ""
	})
	var attached struct{ SessionID string }
	s.call(t, "", "Target.attachToTarget", map[string]any{"targetId": id, "flatten": true}, &attached)
	s.session = attached.SessionID
	testenv.Eventually(t, "the page's script", func() bool { return s.eval(t, `typeof log + document.readyState`) == "objectcomplete" })
}

// eval returns the value of an expression as text.
func (s *fixture) eval(t *testing.T, expression string) string {
	t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	s.call(t, s.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}, &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return fmt.Sprint(answer.Result.Value)
}

func (s *fixture) open(t *testing.T, path string) {
	t.Helper()
	s.call(t, "", "Target.createTarget", map[string]any{"url": s.site + path}, nil)
}

// connect connects to the browser's display.
func (s *fixture) connect(t *testing.T, password func(display.VNC) string) *rfb.Upstream {
	t.Helper()
	d, ok := s.Display()
	if !ok {
		t.Fatal("the browser has no display")
	}
	up, err := rfb.Connect(t.Context(), d.Socket, password(d))
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func fullPassword(d display.VNC) string     { return d.Password }
func viewOnlyPassword(d display.VNC) string { return d.ViewPassword }

// assertNothingRuns fails if a goroutine of the package is left.
func assertNothingRuns(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	testenv.Eventually(t, "no goroutine left", func() bool {
		all := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(all, "/worker/internal/media/rfb.")
	})
}
