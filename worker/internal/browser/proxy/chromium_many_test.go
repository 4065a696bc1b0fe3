package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// TestChromium_ConnectionLimitIsUnchanged checks that pages can open as many
// connections through the proxy as without one. By default, Chromium opens only half
// as many.
func TestChromium_ConnectionLimitIsUnchanged(t *testing.T) {
	const many = 255 // the maximum number of WebSockets of a page
	lasting := make(chan struct{}, many)
	origin := testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/socket":
			c, err := ws.Accept(w, r, ws.Options{Origins: []string{"*"}})
			if err != nil {
				return
			}
			defer c.CloseNow()
			lasting <- struct{}{}
			c.Read(r.Context())
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Access-Control-Allow-Origin", "*")
			http.NewResponseController(w).Flush()
			lasting <- struct{}{}
			<-r.Context().Done()
		default:
			fmt.Fprint(w, "<body>")
		}
	}))
	f, _ := startForwarder(t, newPolicy(t, proxy.DefaultDenylist))
	b := launch(t, "many", f.Address())
	page := attach(t, b, origin.URL+"/")
	_, port, _ := strings.Cut(hostOf(t, origin.URL), ":")
	for path, open := range map[string]string{"/events": "new EventSource('http://", "/socket": "new WebSocket('ws://"} {
		evaluate(t, b, page, fmt.Sprintf(`self.kept ??= [], Array.from({length: %d}, (_, i) => kept.push(%s' + i + '.localhost:%s%s')), 0)`, many, open, port, path))
		for i := range many {
			select {
			case <-lasting:
			case <-time.After(10 * time.Second):
				t.Errorf("%s: %d at once, want %d", path, i, many)
			}
			if t.Failed() {
				break
			}
		}
	}
}
