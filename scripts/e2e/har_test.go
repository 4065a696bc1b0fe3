package e2e

import (
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/sharedapi"
)

const harPage = `<!doctype html><title>loading</title><link rel=icon href="data:,"><img src="/pixel.gif"><script>
addEventListener('load', async () => {
  const moved = await fetch('/moved').then(r => r.text());
  const posted = await fetch('/posted', {method: 'POST', body: 'question'}).then(r => r.json());
  document.title = moved + ' ' + posted.answer;
});
</script>`

// harSite has a compressed page with a picture, a redirect and a posted request.
func harSite() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		_, _ = io.WriteString(zipped, harPage)
		_ = zipped.Close()
	})
	mux.HandleFunc("/pixel.gif", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/gif")
		pixel, _ := base64.StdEncoding.DecodeString("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
		_, _ = w.Write(pixel)
	})
	mux.Handle("/start", http.RedirectHandler("/page", http.StatusFound))
	mux.Handle("/moved", http.RedirectHandler("/text", http.StatusMovedPermanently))
	mux.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "moved") })
	mux.HandleFunc("/posted", func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"answer":"to `+string(question)+`"}`)
	})
	return mux
}

// TestHAR_IsValidAndReplaysInPlaywright records a page, closes its site, and shows the page again from the archive, which a
// validator of HAR has checked.
func TestHAR_IsValidAndReplaysInPlaywright(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	site := httptest.NewServer(harSite())
	t.Cleanup(site.Close)
	request := env.newLaunchRequest(t, true)
	request.Browser.Record = &sharedapi.RecordedParts{"har"}
	recorded := env.worker.launch(t, request)
	want := map[string]any{"title": "moved to question", "width": 1.0, "url": site.URL + "/page"}
	var original, replayed map[string]any
	visited := map[string]any{"endpoint": *recorded.WebSocketDebuggerUrl, "url": site.URL + "/start"}
	runScript(t, "har", visited, &original)
	if diff := cmp.Diff(want, original); diff != "" {
		t.Fatalf("the recorded page (-want +got):\n%s", diff)
	}
	archive := env.recordedPart(t, recorded, "har")
	site.Close()
	path := filepath.Join(t.TempDir(), "session.har")
	if err := os.WriteFile(path, []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	request.Browser.Record = nil
	runScript(t, "har", map[string]any{"endpoint": *env.worker.launch(t, request).WebSocketDebuggerUrl, "url": site.URL + "/start", "har": path}, &replayed)
	if diff := cmp.Diff(want, replayed); diff != "" {
		t.Errorf("the page from the archive (-want +got):\n%s", diff)
	}
}
