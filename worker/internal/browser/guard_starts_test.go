package browser_test

import (
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// guardStarts are the ways in which a browser gets its rules.
var guardStarts = map[string]func(*testing.T, *browser.Spec){
	"cold":      func(*testing.T, *browser.Spec) {},
	"warm":      func(_ *testing.T, s *browser.Spec) { s.Warm = true },
	"shell":     func(t *testing.T, s *browser.Spec) { s.Build = headlessShell(t) },
	"window":    func(_ *testing.T, s *browser.Spec) { s.Headless = false },
	"emulation": func(_ *testing.T, s *browser.Spec) { s.Permissions = []string{"geolocation"} },
}

func TestGuard_HoldsBeforeFirstPage(t *testing.T) {
	for name, set := range guardStarts {
		t.Run(name, func(t *testing.T) {
			w := newWall(t, nil, nil)
			if err := w.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.start(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, func(s *browser.Spec) {
				set(t, s)
				s.StartURLs = []string{w.url("www.allowed", "/redirect?to="+w.url(name, "/")), w.url("second."+name, "/")}
			})
			w.awaitDenied(t, name)
			w.awaitDenied(t, "second."+name)
			if hits := w.requested(); len(hits) > 0 {
				t.Errorf("requested: %v", hits)
			}
		})
	}
}

// TestGuard_CoversServiceWorkersOfProfile opens a page of a denied host that a service worker of an earlier launch answers
// itself.
func TestGuard_CoversServiceWorkersOfProfile(t *testing.T) {
	data := newDirectoryData(t)
	keep := func(s *browser.Spec) { s.Data = data }
	w := newWall(t, nil, keep)
	session := w.openLoaded(t, w.url("former", "/"))
	w.eval(t, session, `navigator.serviceWorker.register("/service.js?to=/").then(() => navigator.serviceWorker.ready).then(() => true)`, nil)
	if err := w.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(w.requested())
	w.start(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, keep)
	for _, path := range []string{"/", "/lead", "/pass"} {
		if text := w.navigate(t, w.page(t), w.url("former", path)); text != "net::ERR_BLOCKED_BY_CLIENT" {
			t.Errorf("%s: %q", path, text)
		}
	}
	if hits := w.requested()[before:]; len(hits) > 0 {
		t.Errorf("requested: %v", hits)
	}
}

// TestGuard_CoversPathsOfServiceWorkers denies paths of a host whose other pages are allowed.
func TestGuard_CoversPathsOfServiceWorkers(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}, Deny: []string{"*.allowed.localhost/pass*", "*.allowed.localhost/lead*"}}}, nil)
	for _, path := range []string{"/lead", "/pass"} {
		session := w.page(t)
		w.eval(t, session, `navigator.serviceWorker.register("/service.js?to=/").then(() => navigator.serviceWorker.ready).then(() => true)`, nil)
		w.call(t, session, "Network.setBypassServiceWorker", map[string]any{"bypass": false})
		if text := w.navigate(t, session, w.url("www.allowed", path)); text != "net::ERR_BLOCKED_BY_CLIENT" {
			t.Errorf("%s: %q", path, text)
		}
		frame := w.page(t)
		w.run(t, frame, "document.body.append(Object.assign(document.createElement('iframe'), {src: "+quoted(path)+"}))")
		w.awaitDenied(t, "www.allowed")
	}
}

func TestGuard_DeniesTransfers(t *testing.T) {
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		t.Run(name, func(t *testing.T) {
			w := newWall(t, &netrules.Rules{Uploads: "deny", Downloads: "deny"}, func(s *browser.Spec) { s.Warm = warm })
			session := w.page(t)
			w.call(t, "", "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"})
			w.run(t, session, `const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob(["x"])); a.download = "kept.txt"; a.click()`)
			awaitFile(t, w.Browser, "kept.txt", files.Canceled)

			var outcome string
			w.eval(t, session, `new Promise(done => { const i = document.createElement("input"); i.type = "file"; i.oncancel = () => done("canceled"); i.onchange = () => done("chosen"); document.body.append(i); i.click() })`, &outcome)
			if outcome != "canceled" {
				t.Errorf("a file chooser: %s", outcome)
			}
			for method, params := range map[string]any{
				"DOM.setFileInputFiles":      map[string]any{"files": []string{"/etc/passwd"}, "backendNodeId": 1},
				"Input.dispatchDragEvent":    map[string]any{"type": "drop", "x": 1, "y": 1, "data": map[string]any{"items": []any{}, "dragOperationsMask": 1, "files": []string{"/etc/passwd"}}},
				"Target.sendMessageToTarget": map[string]any{"message": `{"id":1,"method":"DOM.setFileInputFiles","params":{"files":["/etc/passwd"]}}`},
			} {
				if err := w.Call(t.Context(), session, method, params, nil); err == nil || !strings.Contains(err.Error(), "the rule uploads of the launch") {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
}

func TestGuard_LimitsRequests(t *testing.T) {
	w := newWall(t, &netrules.Rules{MaxRequestsPerMinute: new(int32(5))}, nil)
	session := w.page(t) // and its icon
	var failed int
	w.eval(t, session, `(async () => { let failed = 0; for (let i = 0; i < 10; i++) await fetch("/" + i).catch(() => failed++); return failed })()`, &failed)
	if failed < 6 || failed == 10 {
		t.Errorf("%d of 10 requests failed", failed)
	}
	eventually(t, 5*time.Second, "the rule is named", func() bool { return strings.Contains(w.log.String(), "rule=maxRequestsPerMinute") })
}
