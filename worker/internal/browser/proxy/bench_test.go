package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// BenchmarkPagesAgainstNoForwarder loads a page of 30 resources, and 200 MB,
// alternately with and without a Forwarder, and reports the medians and their ratio.
// Use -benchtime=20x.
func BenchmarkPagesAgainstNoForwarder(b *testing.B) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		origin := start(http.HandlerFunc(serveLoad))
		b.Cleanup(origin.Close)
		wall, _ := proxy.NewEgressPolicy(proxy.Rules{AllowLocal: true})
		f, err := proxy.Start(wall, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(f.Close)
		browsers := map[string]*browser.Browser{"direct": launch(b, "direct-"+name, ""), "forwarded": launch(b, "forwarded-"+name, f.Address())}
		f.Restrict(browsers["forwarded"].UID())
		for what, expression := range map[string]string{
			"page":  `new Promise(done => { const f = document.createElement("iframe"); f.onload = () => { f.remove(); done() }; f.src = "/page?" + Math.random(); document.body.append(f) })`,
			"200MB": `fetch("/big").then(async r => { for (const reader = r.body.getReader(); !(await reader.read()).done; ); })`,
		} {
			b.Run(name+" "+what, func(b *testing.B) {
				took := map[string][]time.Duration{}
				pages := map[string]string{}
				for way, each := range browsers {
					pages[way] = attach(b, each, origin.URL+"/blank")
					evaluate(b, each, pages[way], expression)
				}
				for b.Loop() {
					for way, each := range browsers {
						began := time.Now()
						evaluate(b, each, pages[way], expression)
						took[way] = append(took[way], time.Since(began))
					}
				}
				median := func(way string) float64 {
					slices.Sort(took[way])
					return float64(took[way][len(took[way])/2]) / 1e6
				}
				b.ReportMetric(median("direct"), "direct-ms")
				b.ReportMetric(median("forwarded"), "forwarded-ms")
				b.ReportMetric(median("forwarded")/median("direct"), "ratio")
			})
		}
	}
}

// serveLoad serves a page of 30 resources and a large file.
func serveLoad(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/page":
		w.Header().Set("Content-Type", "text/html")
		for i := range 30 {
			fmt.Fprintf(w, `<img src="/image/%d?%s">`, i, r.URL.RawQuery)
		}
	case "/big":
		w.Header().Set("Content-Length", strconv.Itoa(200<<20))
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	case "/blank":
		fmt.Fprint(w, "<title>blank</title><body>")
	default:
		w.Header().Set("Content-Type", "image/svg+xml")
		io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1">`+strings.Repeat("<g/>", 500)+`</svg>`)
	}
}

// attach opens a page and returns its protocol session.
func attach(t testing.TB, b *browser.Browser, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	if err := b.CDP().Call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		t.Fatal(err)
	}
	if err := b.CDP().Call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		t.Fatal(err)
	}
	if failed := navigate(t, b, attached.SessionID, address); failed != "" {
		t.Fatalf("%s: %s", address, failed)
	}
	return attached.SessionID
}

// navigate navigates and returns Chromium's error name; empty on success.
func navigate(t testing.TB, b *browser.Browser, page, address string) (failed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var answer struct{ ErrorText string }
	if err := b.CDP().Call(ctx, page, "Page.navigate", map[string]any{"url": address}, &answer); err != nil {
		t.Fatal(err)
	}
	for answer.ErrorText == "" && evaluate(t, b, page, `document.readyState + " " + location.href.startsWith("http")`) != "complete true" {
		time.Sleep(5 * time.Millisecond)
	}
	return answer.ErrorText
}

// evaluate returns the value of an expression or its promise as text.
func evaluate(t testing.TB, b *browser.Browser, page, expression string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
	if err := b.CDP().Call(ctx, page, "Runtime.evaluate", params, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.ExceptionDetails != nil {
		return "threw " + answer.ExceptionDetails.Exception.Description
	}
	return fmt.Sprint(answer.Result.Value)
}

// BenchmarkIdleForwarder reports the cost of one idle Forwarder, measured with 100.
func BenchmarkIdleForwarder(b *testing.B) {
	const count = 100
	for b.Loop() {
		wall, _ := proxy.NewEgressPolicy(proxy.Rules{AllowLocal: true})
		before, threads := pss(b), runtime.NumGoroutine()
		var all []*proxy.Forwarder
		for range count {
			f, err := proxy.Start(wall, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, f)
		}
		b.ReportMetric(float64(pss(b)-before)/count, "B-PSS/forwarder")
		b.ReportMetric(float64(runtime.NumGoroutine()-threads)/count, "goroutines/forwarder")
		for _, f := range all {
			f.Close()
		}
	}
}

// pss returns the proportional set size of this process, in bytes.
func pss(t testing.TB) int64 {
	t.Helper()
	runtime.GC()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\nPss:")
	kB, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kB << 10
}
