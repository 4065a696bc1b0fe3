package har_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// newPictures serves a page with 60 requests, which sets its title when it has loaded.
func newPictures(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(append([]byte("loaded = (globalThis.loaded ?? 0) + 1; //"), make([]byte, 20<<10)...))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>loading</title><link rel=icon href=data:,>")
		for i := range 60 {
			_, _ = fmt.Fprintf(w, "<script async src=/%d.js?%s></script>", i, r.URL.RawQuery)
		}
		_, _ = fmt.Fprint(w, `<script>onload = () => document.title = 'loaded ' + loaded</script>`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestCollect_ClientLosesNoCommand sends commands as fast as the browser takes them while pages are recorded.
func TestCollect_ClientLosesNoCommand(t *testing.T) {
	const count = 4000
	address, c := newPictures(t), collect(t, har.Options{})
	tab := browsertest.FirstTab(t, c.browser, address)
	client := c.connect()
	var target struct{ TargetID, SessionID string }
	if err := client.Call(t.Context(), "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		t.Fatal(err)
	}
	if err := client.Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target); err != nil {
		t.Fatal(err)
	}
	answered, began := make(chan error, count), time.Now()
	for i := range count {
		reply, err := client.Send(t.Context(), target.SessionID, "Runtime.evaluate", map[string]any{"expression": fmt.Sprint(i), "returnByValue": true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			var got struct{ Result struct{ Value int } }
			err := reply.Wait(t.Context(), &got)
			if err == nil && got.Result.Value != i {
				err = fmt.Errorf("command %d has the answer %d", i, got.Result.Value)
			}
			answered <- err
		}()
	}
	for range count {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%.0f commands/s", count/time.Since(began).Seconds())
	tab.WaitFor("the page", "document.title", "loaded 60")
	testenv.Eventually(t, "all entries", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.entries) >= 61
	})
	if err := c.stop(); err == nil || c.missed > 0 {
		t.Errorf("missed %d, ended with %v", c.missed, err)
	}
	for _, e := range c.entries {
		if e.Response.Status != 200 || e.Response.Content.Text == "" {
			t.Errorf("%s: %d, %s, %s", e.Request.URL, e.Response.Status, e.Comment, e.Response.Content.Comment)
		}
	}
}

// BenchmarkCollect_PageLoad loads a page with 60 requests in two browsers by turns: one is recorded.
func BenchmarkCollect_PageLoad(b *testing.B) {
	address := newPictures(b)
	recorded := collect(b, har.Options{})
	plain := browsertest.NewLauncher(b)(browser.Spec{LaunchID: "plain", Headless: true, Timeout: time.Minute})
	tabs := map[string]*browsertest.Tab{"recorded-ms": browsertest.FirstTab(b, recorded.browser, "about:blank"), "plain-ms": browsertest.FirstTab(b, plain, "about:blank")}
	times := map[string][]float64{}
	for i := 0; b.Loop(); i++ {
		for name, tab := range tabs { // in random order
			tab.Navigate("about:blank")
			began := time.Now()
			tab.Navigate(fmt.Sprintf("%s/?%s%d", address, name, i))
			tab.Eval(`new Promise(resolve => { const poll = () => document.title === 'loaded 60' ? resolve() : setTimeout(poll, 1); poll() })`)
			times[name] = append(times[name], float64(time.Since(began).Microseconds())/1000)
		}
	}
	for name, list := range times {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], "median-"+name)
		b.ReportMetric(list[0], "min-"+name)
	}
}
