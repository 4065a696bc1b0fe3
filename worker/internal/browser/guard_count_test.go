package browser_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// TestGuard_CountsDenials counts the requests that are denied in the browser, which the traffic of the launch contains.
func TestGuard_CountsDenials(t *testing.T) {
	var mu sync.Mutex
	counted := map[string]string{} // rules by host
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}, Block: []string{"image"}, Methods: &netrules.Methods{ReadOnly: true}}, func(s *browser.Spec) {
		s.CountDenied = func(host string, v netrules.Verdict) {
			mu.Lock()
			defer mu.Unlock()
			counted[host] = v.Rule
		}
	})
	session := w.page(t)
	w.run(t, session, "new Image().src = "+quoted(w.url("image", "/")))
	w.run(t, session, "fetch("+quoted(w.url("post", "/"))+", {method: 'POST', mode: 'no-cors'}).catch(() => {})")
	w.navigate(t, session, w.url("document", "/"))
	openPastRelay(t, w, "data:text/html,x")
	want := map[string]string{
		"image.localhost" + w.port: "block: image", "post.localhost" + w.port: "methods.readOnly", "document.localhost" + w.port: "navigate.allow", "data:": "navigate.allow",
	}
	eventually(t, 10*time.Second, "all denials", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Equal(counted, want)
	})
}
