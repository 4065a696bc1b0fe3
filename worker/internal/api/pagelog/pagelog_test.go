package pagelog_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// newSite serves a page that writes every kind of message, and one that writes on
// request.
func newSite(t *testing.T) string {
	t.Helper()
	pages := map[string]string{
		"/noisy": `<!doctype html><script>
console.log('plain', 1, {id: 1, name: 'x'}, [1, 'two']);
console.warn('careful');
console.debug(undefined, null, -0);
fetch('/missing');
Promise.reject(new Error('unhandled'));
setTimeout(() => { throw new Error('uncaught'); });
new Worker('/worker.js');
</script><iframe src="/frame"></iframe>`,
		"/worker.js":   `console.error('from a worker')`,
		"/frame":       `<script>console.info('from a frame')</script>`,
		"/favicon.ico": ``,
		"/quiet":       `<!doctype html><title>Quiet</title>`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(r.URL.Path, ".js") {
			w.Header().Set("Content-Type", "text/javascript")
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func openLog(t *testing.T, b *browser.Browser) *pagelog.Log {
	t.Helper()
	service := pagelog.New()
	t.Cleanup(service.Close)
	log, err := service.Open(t.Context(), access.Browser{LaunchID: b.LaunchID, DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, Dial: b.Dial, Done: b.Done()})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestLog_HasMessagesFromBeforeAndAfter(t *testing.T) {
	b := browsertest.NewLauncher(t)(browser.Spec{LaunchID: "noisy", Headless: true, Options: settings.Options{StartURLs: []string{}}})
	site := newSite(t)
	tab := browsertest.OpenTab(t, b, site+"/noisy")
	tab.WaitFor("the scripts", "document.readyState", "complete")
	log := openLog(t, b)
	want := []pagelog.Entry{
		{Kind: pagelog.Console, Level: pagelog.Info, Text: "plain 1 Object Array(2)", URL: site + "/noisy", Line: 2, Column: 9},
		{Kind: pagelog.Console, Level: pagelog.Warning, Text: "careful", URL: site + "/noisy", Line: 3, Column: 9},
		{Kind: pagelog.Console, Level: pagelog.Debug, Text: "undefined null -0", URL: site + "/noisy", Line: 4, Column: 9},
		{Kind: pagelog.Request, Level: pagelog.Error, Text: "Failed to load resource: the server responded with a status of 404 (Not Found)", URL: site + "/missing"},
		{Kind: pagelog.Exception, Level: pagelog.Error, Text: "Uncaught (in promise) Error: unhandled"},
		{Kind: pagelog.Exception, Level: pagelog.Error, Text: "Uncaught Error: uncaught"},
		{Kind: pagelog.Console, Level: pagelog.Error, Text: "from a worker", URL: site + "/worker.js", Line: 1, Column: 9},
		{Kind: pagelog.Console, Level: pagelog.Info, Text: "from a frame", URL: site + "/frame", Line: 1, Column: 17},
	}
	for _, entry := range want {
		testenv.Eventually(t, entry.Text, func() bool {
			return slices.ContainsFunc(log.After(0, 1000).Entries, func(e pagelog.Entry) bool { return matches(e, entry) })
		})
	}
	before := log.After(0, 1000).LastSeq
	tab.Navigate(site + "/quiet")
	tab.Eval("console.log('later', {id: 1, name: 'x'}, [1, 'two'])")
	testenv.Eventually(t, "a later message", func() bool {
		p := log.After(before, 1000)
		return len(p.Entries) > 0 && p.Entries[len(p.Entries)-1].Text == `later {id: 1, name: "x"} [1, "two"]`
	})
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the end of the log", func() bool { return log.After(0, 1).Ended })
}

// matches compares an entry without its number, time and tab. The first line of a
// text is compared if there is a stack.
func matches(got, want pagelog.Entry) bool {
	got.Text, _, _ = strings.Cut(got.Text, "\n")
	ignored := []string{"Seq", "At", "TargetID"}
	if want.URL == "" {
		ignored = append(ignored, "URL", "Line", "Column")
	}
	return got.TargetID != "" && !got.At.IsZero() && got.Seq > 0 && cmp.Equal(want, got, cmpopts.IgnoreFields(pagelog.Entry{}, ignored...))
}

func TestLog_DropsOldestEntries(t *testing.T) {
	b := browsertest.NewLauncher(t)(browser.Spec{LaunchID: "flood", Headless: true, Options: settings.Options{StartURLs: []string{}}})
	tab := browsertest.OpenTab(t, b, newSite(t)+"/quiet")
	log := openLog(t, b)
	tab.Eval(fmt.Sprintf("for (let i = 1; i <= %d; i++) console.log(String(i))", pagelog.MaxEntries+500))
	testenv.Eventually(t, "the last entry", func() bool { return log.After(0, 1000).LastSeq == pagelog.MaxEntries+500 })
	p := log.After(100, 10)
	if p.Dropped != 400 || len(p.Entries) != 10 || p.Entries[0].Text != "501" || p.LastSeq != 510 {
		t.Errorf("got %+v", p)
	}
	tab.Eval("for (let i = 0; i < 1000; i++) console.log('x'.repeat(10000))")
	testenv.Eventually(t, "the size limit", func() bool {
		p := log.After(0, 1000)
		size := 0
		for _, e := range p.Entries {
			size += len(e.Text)
		}
		return p.LastSeq == pagelog.MaxEntries+1500 && size <= 2<<20 && size > 1<<20
	})
}
