package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
)

// serveLoggingPage serves a page that writes to its console.
func serveLoggingPage(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>" + pageTitle + "</title><script>console.log('first'); fetch('/missing')</script>"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

type logAnswer struct {
	Data struct {
		Items []struct{ Kind, Text string }
	}
}

// awaitEntry polls the log until it has an entry with this text.
func awaitEntry(t *testing.T, w *worker, session workerapi.BrowserSession, kind, part string) {
	t.Helper()
	eventually(t, 10*time.Second, part, func() error {
		var got logAnswer
		text := w.requireRoute(t, session, "/logs", http.StatusOK)
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		for _, e := range got.Data.Items {
			if e.Kind == kind && strings.Contains(e.Text, part) {
				return nil
			}
		}
		return fmt.Errorf("the log is %s", text)
	})
}

func TestLogs_AnswerAndStream(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t), serveLoggingPage(t)
	request := env.newLaunchRequest(t, true)
	request.Browser.StartUrls = &[]string{page}
	onDemand := env.worker.launch(t, request)
	request.Browser.Logs = new(true)
	fromStart := env.worker.launch(t, request)
	for _, s := range []workerapi.BrowserSession{onDemand, fromStart} {
		awaitEntry(t, env.worker, s, "console", "first")
		awaitEntry(t, env.worker, s, "request", "404")
	}
	env.worker.requireRoute(t, onDemand, "/logs?limit=0", http.StatusBadRequest)

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.worker.url+"/browsers/"+fromStart.LaunchId.String()+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", env.worker.key)
	r.Header.Set("Accept", "text/event-stream")
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	next := func(part string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", part, lines.Err())
	}
	next("first")
	runScript(t, "playwright", map[string]any{"endpoint": *fromStart.WebSocketDebuggerUrl, "url": page, "expression": "console.warn('second')"}, &struct{}{})
	next("second")
	env.worker.killSession(t, fromStart.Id)
	next("event: end")
	env.worker.requireRoute(t, fromStart, "/logs", http.StatusNotFound)
	// The worker ends with the test while a stream is open, which must not delay its end.
	r.URL.Path = "/browsers/" + onDemand.LaunchId.String() + "/logs"
	open, err := http.DefaultClient.Do(r)
	if err != nil || open.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", open, err)
	}
	t.Cleanup(func() { open.Body.Close() })
}
