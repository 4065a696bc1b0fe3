package devtools_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// crash kills the renderer process of a tab and waits until the browser has noticed.
func crash(t *testing.T, b *browser.Browser, id string) {
	t.Helper()
	conn, err := ws.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d/devtools/page/%s", b.DebugPort, id), nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), ws.Text, []byte(`{"id":1,"method":"Page.crash"}`)); err != nil {
		t.Fatal(err)
	}
	for {
		_, said, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(said), `"Inspector.targetCrashed"`) {
			return
		}
	}
}

func TestNavigate_LeavesCrashedPage(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	site := newSite(t)
	elsewhere := strings.Replace(site, "127.0.0.1", "localhost", 1)
	id := w.newTab(t)
	for _, wait := range []string{"none", "domcontentloaded", "load"} {
		for _, address := range []string{site + "/red", elsewhere + "/red", "about:blank"} {
			if got := w.navigate(t, id, site+"/red", "load"); got.status != 200 {
				t.Fatalf("before the crash: %d %s", got.status, got.body)
			}
			crash(t, b, id)
			began := time.Now()
			got := w.navigate(t, id, address, wait)
			if got.status != 200 || !strings.Contains(got.body, address) {
				t.Errorf("%s of %s after a crash: %d %s", wait, address, got.status, got.body)
			}
			t.Logf("%s of %s: %s", wait, address, time.Since(began))
		}
	}
}
