package devtools_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// navigate opens a URL in a tab and waits for the event wait.
func (w *testServer) navigate(t *testing.T, id, address, wait string) response {
	t.Helper()
	return send(t, "POST", w.path("/navigate"), fmt.Sprintf(`{"targetId":%q,"url":%q,"waitUntil":%q,"timeoutMs":20000}`, id, address, wait), w.controlHeader(t)...)
}

// stop opens a page with a dialog in a tab.
func (w *testServer) stop(t *testing.T, id, site string) {
	t.Helper()
	began := time.Now()
	got := w.navigate(t, id, site+"/alert", "load")
	if got.status != 409 || !strings.Contains(got.body, "shows a dialog") || time.Since(began) > 15*time.Second {
		t.Errorf("a page with an alert: %d %s after %s", got.status, got.body, time.Since(began))
	}
}

func TestNavigate_UnansweredDialogIsConflict(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	site := newSite(t)
	id := w.newTab(t)
	for _, wait := range []string{"none", "domcontentloaded", "load"} {
		w.stop(t, id, site)
		if got := w.navigate(t, id, site+"/red", wait); got.status != 200 || !strings.Contains(got.body, site+"/red") {
			t.Errorf("waiting for %s, from a page with a dialog: got %d %s", wait, got.status, got.body)
		}
	}
	w.stop(t, id, site)
	if got := do(t, "GET", w.path("/screenshot?targetId="+id), w.controlHeader(t)...); got.status != 504 || !strings.Contains(got.body, "shows a dialog") {
		t.Errorf("a screenshot of a page with a dialog: got %d %s", got.status, got.body)
	}
	answersDialogs(t, b, id)
	if got := w.navigate(t, id, site+"/alert", "load"); got.status != 200 {
		t.Errorf("a dialog that a client answers: got %d %s", got.status, got.body)
	}
	if got := send(t, "POST", w.path("/close"), `{"targetId":"`+id+`"}`, w.controlHeader(t)...); got.status != 200 {
		t.Errorf("close: %d %s", got.status, got.body)
	}
}

// answersDialogs starts a client that accepts every dialog of a tab.
func answersDialogs(t *testing.T, b *browser.Browser, id string) {
	t.Helper()
	conn, err := ws.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d/devtools/page/%s", b.DebugPort, id), nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), ws.Text, []byte(`{"id":1,"method":"Page.enable"}`)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.CloseNow(); <-done })
	go func() {
		defer close(done)
		for {
			_, said, err := conn.Read(t.Context())
			if err != nil {
				return
			}
			if strings.Contains(string(said), `"Page.javascriptDialogOpening"`) {
				_ = conn.Write(t.Context(), ws.Text, []byte(`{"id":2,"method":"Page.handleJavaScriptDialog","params":{"accept":true}}`))
			}
		}
	}()
}
