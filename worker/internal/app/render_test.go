package app_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// renderPaths are the operations that launch a browser for one page.
func renderPaths() []string { return []string{"/screenshot", "/pdf", "/content"} }

// renderSite is a site whose page /hang is never complete.
type renderSite struct {
	*httptest.Server
	hanging chan struct{} // gets a value for each request of /hang
}

func newRenderSite(t *testing.T) *renderSite {
	t.Helper()
	s := &renderSite{hanging: make(chan struct{}, 10)}
	ending := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><title>Page</title><body style="margin:0"><div style="height:3000px">The site</div>`)
	})
	mux.HandleFunc("/dialog", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<script>alert('Hello')</script>")
	})
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		s.hanging <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-ending:
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() { close(ending); s.Close() })
	return s
}

// render sends a request with the worker key.
func (r *testWorker) render(t *testing.T, path, body string) (status int, text []byte) {
	t.Helper()
	return r.call(t.Context(), t, "POST", path, body, "X-API-Key", workerKey)
}

// assertRenderEnded checks that the newest session has ended for this reason and that nothing is left.
func (r *testWorker) assertRenderEnded(t *testing.T, reason sharedapi.SessionEndReason) {
	t.Helper()
	_, text := r.call(t.Context(), t, "GET", "/sessions?limit=1", "", "X-API-Key", workerKey)
	items := decode[workerapi.BrowserSessionListResponse](t, text).Data.Items
	if len(items) != 1 || items[0].EndReason == nil || *items[0].EndReason != reason {
		t.Errorf("the newest session: %s", text)
	}
	r.cloud.Await(t, 0, 0)
	r.assertNoLeftovers(t)
}

func TestRender_CapturesPage(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	fake.Limit(1) // a response frees the slot
	site := newRenderSite(t)
	size := func(width, height int) func([]byte) string {
		return func(text []byte) string {
			picture, _, err := image.DecodeConfig(bytes.NewReader(text))
			if err != nil || width > 0 && picture.Width != width || height > 0 && picture.Height != height {
				return fmt.Sprintf("the picture has %d x %d pixels (%v)", picture.Width, picture.Height, err)
			}
			return ""
		}
	}
	contains := func(parts ...string) func([]byte) string {
		return func(text []byte) string {
			for _, part := range parts {
				if !bytes.Contains(text, []byte(part)) {
					return fmt.Sprintf("%q is missing in %.300s", part, text)
				}
			}
			return ""
		}
	}
	profile := fake.Profile(r.version)
	for name, test := range map[string]struct {
		path, body string
		check      func([]byte) string
	}{
		"screenshot":           {"/screenshot", `{"url":"%[1]s/page","browser":{"viewport":{"width":800,"height":600}}}`, size(800, 600)},
		"screenshot of HTML":   {"/screenshot", `{"html":"<h1>Hello</h1>","options":{"format":"jpeg","quality":50},"browser":{"viewport":{"width":400,"height":300}}}`, size(400, 300)},
		"whole page":           {"/screenshot", `{"url":"%[1]s/page","options":{"fullPage":true},"browser":{"viewport":{"width":800,"height":600}}}`, size(0, 3000)},
		"scaled down":          {"/screenshot", `{"url":"%[1]s/page","options":{"width":200},"browser":{"viewport":{"width":800,"height":600}}}`, size(200, 0)},
		"null as omitted":      {"/screenshot", `{"url":"%[1]s/page","html":null,"waitUntil":null,"timeoutMs":null,"options":{"format":null,"quality":null,"fullPage":null},"browser":null}`, contains("PNG")},
		"PDF":                  {"/pdf", `{"url":"%[1]s/page","options":{"paperFormat":"letter","landscape":true}}`, contains("%PDF-", "/MediaBox [0 0 792 612]")},
		"PDF of HTML":          {"/pdf", `{"html":"<h1>Invoice</h1>","options":null}`, contains("%PDF-")},
		"content":              {"/content", `{"url":"%[1]s/page","waitUntil":"domcontentloaded"}`, contains("<!DOCTYPE html><html><head><title>Page</title></head><body", "The site")},
		"content of a profile": {"/content", fmt.Sprintf(`{"profileId":%q,"url":"%%[1]s/page","waitSeconds":5}`, profile), contains("The site")},
		"content of HTML":      {"/content", `{"html":"<!DOCTYPE html><p></p><script>onload = () => document.querySelector('p').textContent = 6 * 7</script>"}`, contains("<!DOCTYPE html>", "<p>42</p>")},
		"at once":              {"/content", `{"html":"<p>%[1]s</p>","waitUntil":"none"}`, contains("127.0.0.1")},
	} {
		body := strings.ReplaceAll(test.body, "%[1]s", site.URL)
		status, text := r.render(t, test.path, body)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, text)
			continue
		}
		if problem := test.check(text); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
	r.assertRenderEnded(t, "client_close")
}

func TestRender_AcceptsKeys(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	r := startTestWorker(t, fake)
	r.secrets = append(r.secrets, callersKey)
	for name, test := range map[string]struct {
		query   string
		headers []string
		charged string
	}{
		"worker key, header":       {"", []string{"X-API-Key", workerKey}, cloudtest.Key},
		"worker key, query":        {"?token=" + workerKey, nil, cloudtest.Key},
		"organization key, Bearer": {"", []string{"Authorization", "Bearer " + callersKey}, callersKey},
		"organization key, query":  {"?token=" + callersKey, nil, callersKey},
		"the same key twice":       {"?token=" + callersKey, []string{"X-API-Key", callersKey}, callersKey},
	} {
		if status, text := r.call(t.Context(), t, "POST", "/content"+test.query, `{"html":"<p>Hello</p>"}`, test.headers...); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, text)
			continue
		}
		calls := fake.Calls(cloudtest.Authorize)
		if last := calls[len(calls)-1]; last.Key != test.charged || last.Authorize.Spec == nil {
			t.Errorf("%s: %+v was charged, want %s", name, last, test.charged)
		}
	}
	r.cloud.Await(t, 0, 0)
}

func TestRender_InvalidRequestNamesFields(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	ctx := contracttest.AllowInvalidRequest(t.Context())
	common := `"url":"file:///etc/passwd","html":"","waitUntil":"networkidle2","timeoutMs":1,"profileId":"x","spec":{},"browser":{"viewport":{"width":0,"height":1}},"proxyOverride":{},"waitSeconds":-1,"gotoOptions":{}`
	fields := []string{"browser.viewport.height", "browser.viewport.width", "gotoOptions", "html", "profileId", "proxyOverride.server", "timeoutMs", "url", "waitSeconds", "waitUntil"}
	for path, more := range map[string]struct {
		options string
		fields  []string
	}{
		"/screenshot": {`"options":{"format":"gif","quality":0,"fullPage":1,"width":1,"path":"x"}`, []string{"options.format", "options.fullPage", "options.path", "options.quality", "options.width"}},
		"/pdf":        {`"options":{"paperFormat":"a0","landscape":1,"printBackground":1,"scale":3,"format":"A4"}`, []string{"options.format", "options.landscape", "options.paperFormat", "options.printBackground", "options.scale"}},
		"/content":    {`"options":{}`, []string{"options"}},
	} {
		status, text := r.call(ctx, t, "POST", path+"?timeout=1000", "{"+common+","+more.options+"}", "X-API-Key", workerKey)
		var named []string
		for _, detail := range decode[failure](t, text).Error.Details {
			named = append(named, detail.Field)
		}
		slices.Sort(named)
		want := append(slices.Concat(fields, more.fields), "timeout")
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Compact(named)); status != http.StatusBadRequest || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", path, status, diff)
		}
		for name, test := range map[string]struct{ body, field string }{
			"no page":       {`{}`, "url"},
			"two pages":     {`{"url":"about:blank","html":"x"}`, "url"},
			"two profiles":  {`{"url":"about:blank","profileId":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f","spec":{}}`, "profileId"},
			"refused later": {`{"url":"about:blank","browser":{"args":["--user-data-dir=/tmp/x"]}}`, "browser.args[0]"},
			"uninstalled":   {`{"url":"about:blank","spec":{"browserVersion":42}}`, "browserVersion"},
			"syntax":        {`{"url"`, "body"},
		} {
			status, text := r.call(ctx, t, "POST", path, test.body, "X-API-Key", workerKey)
			if got := decode[failure](t, text).Error.Details; status != http.StatusBadRequest || len(got) != 1 || got[0].Field != test.field {
				t.Errorf("%s, %s: %d %s", path, name, status, text)
			}
		}
	}
	r.cloud.Await(t, 0, 0)
}

func TestRender_Refusals(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.MaxSessions = 1 })
	const body = `{"html":"<p>Hello</p>"}`
	own := []string{"X-API-Key", workerKey}
	type refusal struct {
		query, body string
		headers     []string
		status      int
		code        string
	}
	check := func(name, path string, test refusal) {
		t.Helper()
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", path+test.query, test.body, test.headers...)
		if got := decode[failure](t, text); status != test.status || got.Error.Code != test.code {
			t.Errorf("%s, %s: %d %s", path, name, status, text)
		}
	}
	for _, path := range renderPaths() {
		for name, test := range map[string]refusal{
			"no key, nothing learned":      {"", `{"nonsense":1}`, nil, 401, "AUTHENTICATION_ERROR"},
			"a wrong key, nothing learned": {"?token=svc_" + strings.Repeat("a", 32), `{"nonsense":1}`, nil, 401, "AUTHENTICATION_ERROR"},
			"two keys":                     {"?token=another", body, own, 400, "VALIDATION_ERROR"},
			"another page":                 {"", body, append([]string{"Origin", "https://evil.example"}, own...), 403, "AUTHORIZATION_ERROR"},
			"an unknown profile":           {"", fmt.Sprintf(`{"html":"x","profileId":%q}`, uuid.New()), own, 404, "RESOURCE_NOT_FOUND"},
			"a text":                       {"", body, append([]string{"Content-Type", "text/plain"}, own...), 415, "VALIDATION_ERROR"},
			"a huge body":                  {"", `{"html":"` + strings.Repeat("x", 33<<20) + `"}`, own, 413, "VALIDATION_ERROR"},
		} {
			check(name, path, test)
		}
		fake.Limit(0)
		check("no slot", path, refusal{"", body, own, 402, "AUTHORIZATION_ERROR"})
		fake.Limit(1)
		fake.Down(true)
		check("no cloud", path, refusal{"", body, own, 503, "EXTERNAL_SERVICE_ERROR"})
		fake.Down(false)
		fake.Revoke(true)
		check("a revoked key", path, refusal{"", body, own, 424, "AUTHENTICATION_ERROR"})
		fake.Revoke(false)
	}
	r.cloud.Await(t, 0, 0)
	r.assertNoLeftovers(t)
}

// TestRender_FailureEndsBrowser checks that nothing is left of a page that cannot be captured.
func TestRender_FailureEndsBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	r.cloud.Limit(1) // each response frees the slot
	site := newRenderSite(t)
	type failed struct {
		body    string
		status  int
		message string
	}
	check := func(name, path string, test failed) {
		t.Helper()
		status, text := r.render(t, path, test.body)
		if got := decode[failure](t, text); status != test.status || !strings.Contains(got.Error.Message, test.message) {
			t.Errorf("%s, %s: %d %s", path, name, status, text)
		}
	}
	for _, path := range renderPaths() {
		check("unreachable", path, failed{`{"url":"http://127.0.0.1:1/"}`, 502, "The page could not be loaded: net::ERR_"})
		check("a hanging page", path, failed{`{"url":"` + site.URL + `/hang","timeoutMs":300}`, 504, "The page was not ready in time"})
		check("a dialog", path, failed{`{"url":"` + site.URL + `/dialog"}`, 409, "The page shows a dialog"})
	}
	check("a hanging script", "/content", failed{`{"html":"<script src='` + site.URL + `/hang'></script>","timeoutMs":300}`, 504, "The page was not ready in time"})
	check("a dialog of HTML", "/content", failed{`{"html":"<script>alert(1)</script>"}`, 409, "The page shows a dialog"})
	check("the maximum duration", "/content", failed{`{"url":"` + site.URL + `/hang","browser":{"maxDurationSeconds":1}}`, 502, "max_duration"})
	r.cloud.Await(t, 0, 0)
	r.assertNoLeftovers(t)
}

// TestRender_LeavingClientEndsBrowser checks that a client that disconnects takes no slot, neither while
// its page is loaded nor while it waits for capacity.
func TestRender_LeavingClientEndsBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken, func(c *app.Config) { c.MaxSessions = 1 })
	site := newRenderSite(t)
	send := func(body string) (leave context.CancelFunc, left <-chan error) {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.postRender(ctx, body) }()
		return leave, done
	}
	leaveLoading, loading := send(`{"url":"` + site.URL + `/hang"}`)
	<-site.hanging
	if status, text := r.render(t, "/content", `{"html":"x"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a full machine: %d %s", status, text)
	}
	leaveWaiting, waiting := send(`{"html":"x","waitSeconds":60}`)
	r.awaitMetric(t, 1, "svc_worker_queue_length")
	leaveWaiting()
	r.awaitMetric(t, 0, "svc_worker_queue_length")
	var next sync.WaitGroup
	next.Go(func() {
		if status, text := r.render(t, "/content", `{"html":"<p>next</p>","waitSeconds":60}`); status != http.StatusOK || !strings.Contains(string(text), "next") {
			t.Errorf("the next in line: %d %s", status, text)
		}
	})
	r.awaitMetric(t, 1, "svc_worker_queue_length")
	leaveLoading()
	next.Wait()
	for name, left := range map[string]<-chan error{"loading": loading, "waiting": waiting} {
		if err := <-left; err == nil {
			t.Errorf("the client that left while %s got a response", name)
		}
	}
	if calls := r.cloud.CallCount(cloudtest.Authorize); calls != 2 {
		t.Errorf("%d launches, want 2", calls)
	}
	r.assertRenderEnded(t, "client_close")
}

// postRender sends a request until ctx ends.
func (r *testWorker) postRender(ctx context.Context, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/content", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-API-Key", workerKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestRender_ShutdownEndsRequests(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.DrainTimeout = 100 * time.Millisecond })
	site := newRenderSite(t)
	var request sync.WaitGroup
	request.Go(func() {
		if status, text := r.render(t, "/pdf", `{"url":"`+site.URL+`/hang","timeoutMs":120000}`); status != http.StatusServiceUnavailable {
			t.Errorf("a request during the shutdown: %d %s", status, text)
		}
	})
	<-site.hanging
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	request.Wait()
	fake.Await(t, 0, 0)
	r.assertNoLeftovers(t)
}

// TestRender_ContentRunsNoScripts checks that a web browser treats the HTML as a page of its own, without
// the cookies of the worker.
func TestRender_ContentRunsNoScripts(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/content", strings.NewReader(`{"html":"<script>1</script>"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-API-Key", workerKey)
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	policy, kind := response.Header.Get("Content-Security-Policy"), response.Header.Get("Content-Type")
	if response.StatusCode != http.StatusOK || kind != "text/html; charset=UTF-8" || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "sandbox") {
		t.Errorf("%d, type %q, policy %q", response.StatusCode, kind, policy)
	}
}
