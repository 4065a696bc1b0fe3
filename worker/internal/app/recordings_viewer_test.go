package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/media/trace"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// offer is what a page has besides the shop: a picture and a frame, which the trace has too.
const offer = `<img id=picture src=/picture.svg><iframe id=frame src=/frame></iframe><style>h2 { content: "MARK" }</style>`

// opened is what the browser of testdata/viewerlink.cjs has seen.
type opened struct {
	URL, Text, Snapshot, Visible, Frame, Owned string
	Actions, Problems, Requests                []string
	Width                                      int
}

// startTraceWorker starts a worker with the viewer. prefix is its id behind a load balancer, or empty.
func startTraceWorker(t *testing.T, prefix string) *testWorker {
	t.Helper()
	return startTestWorker(t, cloudtest.New(t), withFiles, withCompleteBrowsers, withPlaywright(t), func(c *app.Config) {
		c.PublicURL = fmt.Sprintf("http://127.0.0.1:%d", c.Port)
		c.WorkerID = prefix
	})
}

// openTrace opens a link to the trace viewer with a browser of a person: those of a worker cannot reach it.
func openTrace(t *testing.T, link, file string, others ...string) (got opened) {
	t.Helper()
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed (%v)", err)
	}
	picture := filepath.Join(t.TempDir(), "viewer.png")
	got = decode[opened](t, node(t, append([]string{"testdata/viewerlink.cjs", found[0].Path, link, picture, "Evaluate () => { throw", file}, others...)...))
	if strings.Contains(got.URL, "?t=") || strings.Contains(got.URL, "&t=") {
		t.Error("the address keeps the ticket")
	}
	return got
}

// traceLink returns a new link to the trace viewer.
func (f filesOf) traceLink() string {
	f.t.Helper()
	_, text := f.expect(200, "POST", "/recording/ticket", "", "X-API-Key", workerKey)
	got := decode[workerapi.RecordingTicketResponse](f.t, []byte(text)).Data
	if got.ViewerUrl == nil {
		f.t.Fatalf("got %+v", got)
	}
	return *got.ViewerUrl
}

// recordShop records what a client does in a shop.
func (r *testWorker) recordShop(t *testing.T, site *shop) workerapi.BrowserSession {
	t.Helper()
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":true,"record":["trace"],"startUrls":[]}}`, r.cloud.Profile(r.version)))
	site.record(t, r, s)
	node(t, "testdata/trace.cjs", "puppeteer", *s.WebSocketDebuggerUrl, site.URL, "secret")
	site.end(t, r, s, "broken on purpose")
	return s
}

// TestTraceViewer_ShowsTraceWithoutOtherHosts opens a trace with a ticket: the policies permit what the viewer needs, and nothing is
// requested from the recorded site.
func TestTraceViewer_ShowsTraceWithoutOtherHosts(t *testing.T) {
	for _, prefix := range []string{"", "edge"} {
		t.Run(prefix, func(t *testing.T) {
			r, site := startTraceWorker(t, prefix), newShop(t)
			site.extra = offer
			s := r.recordShop(t, site)
			viewer := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Recording.ViewerUrl
			if viewer == nil || !strings.HasSuffix(*viewer, "/sessions/"+s.Id.String()+"/recording/viewer") {
				t.Fatalf("the viewer is %v", viewer)
			}
			if reported := r.cloud.Calls(cloudtest.Start)[0].Start.Recording; reported == nil || reported.ViewerUrl == nil || *reported.ViewerUrl != *viewer {
				t.Errorf("the start report contains the recording %+v", reported)
			}
			f := filesOf{r, t, "/sessions/" + s.Id.String(), nil}
			got := openTrace(t, f.traceLink(), "sha1/none")
			if !slices.ContainsFunc(got.Actions, func(a string) bool { return strings.HasPrefix(a, "Navigate to "+site.URL+"/shop") }) {
				t.Errorf("actions %q", got.Actions)
			}
			if !strings.Contains(got.Snapshot, "Thank you") || got.Width != 7 || got.Visible != "visible" || got.Frame != "Framed" {
				t.Errorf("snapshot %q, picture %d, %s, frame %q", got.Snapshot, got.Width, got.Visible, got.Frame)
			}
			if slices.ContainsFunc(got.Problems, func(p string) bool { return strings.Contains(p, "Content Security Policy") }) {
				t.Errorf("problems %q", got.Problems)
			}
			if got.URL != *viewer+"/index.html?trace="+url.QueryEscape(strings.TrimSuffix(*viewer, "viewer")+"trace") {
				t.Errorf("opened %s", got.URL)
			}
			if after := site.requests.Load(); after != site.recorded {
				t.Errorf("the site got %d requests from the viewer", after-site.recorded)
			}
		})
	}
}

// hostile is what gets into a snapshot of Playwright 1.57 by a text in a style sheet. {site} is the recorded site.
const hostile = `</style><script>top.owned = localStorage.owned = 'script'; fetch('{site}/owned-script')</script>
<img src=x onerror="top.owned = 'onerror'"><svg onload="top.owned = 'svg'"></svg>
<iframe srcdoc="<script>top.owned = 'srcdoc'</script><img src='{site}/owned-srcdoc'>"></iframe>
<iframe srcdoc="<img src=x onerror=&quot;top.owned = 'srcdoc onerror'&quot;>"></iframe>
<iframe __playwright_src__="/{file}?dct=text/html"></iframe><iframe __playwright_src__="/../../../../"></iframe>
<object data="data:text/html,<script>top.postMessage(1)</script>"></object><embed src="{file}">
<a id=owned-link href="javascript:top.owned = 'link'">x</a><a id=owned-top target=_top href="{site}/owned-top">x</a>
<form action="{site}/owned-form"><button id=owned-submit>x</button></form><script src="{site}/owned.js"></script><script src="{file}"></script><script type=module>top.owned = 'module'</script>
<link rel=stylesheet href="{site}/owned.css"><style>`

// TestTraceViewer_RunsNothingOfRecordedPages puts scripts into a trace, as snapshots and as a file. Nothing of them runs.
func TestTraceViewer_RunsNothingOfRecordedPages(t *testing.T) {
	r, site := startTraceWorker(t, ""), newShop(t)
	site.extra = offer
	s := r.recordShop(t, site)
	name := filepath.Join(r.directoryOf(s), trace.EventsName)
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file := "sha1/" + fileOfTrace(t, r.traceFiles(t, s), "<title>Shop</title>")
	inserted, err := json.Marshal(strings.NewReplacer("{site}", site.URL, "{file}", file).Replace(hostile))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(raw), "MARK", string(inserted[1:len(inserted)-1]))
	if changed == string(raw) {
		t.Fatal("the trace has no style sheet")
	}
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	path := "/sessions/" + s.Id.String() // of what a page could have put on the worker
	got := openTrace(t, filesOf{r, t, path, nil}.traceLink(), file, site.URL+"/owned.zip", r.url+path+"/recording/events", r.url+path+"/files/owned.zip")
	for _, part := range []string{"/recording/events", "/files"} {
		if strings.Contains(r.log.String(), "path="+path+part) {
			t.Error("the viewer has read ", part)
		}
	}
	if !strings.Contains(got.Snapshot, "Thank you") || got.Owned != "  Playwright Trace Viewer" {
		t.Errorf("the page shows %q, and has run %q", got.Snapshot, got.Owned)
	}
	if !slices.ContainsFunc(got.Problems, func(p string) bool { return strings.Contains(p, "inline script") }) {
		t.Errorf("no script was refused: %q", got.Problems)
	}
	if after := site.requests.Load(); after != site.recorded {
		t.Errorf("the site got %d requests: %q", after-site.recorded, got.Requests)
	}
}

// traceFiles returns the files of a trace.
func (r *testWorker) traceFiles(t *testing.T, s workerapi.BrowserSession) map[string]string {
	t.Helper()
	_, files := r.traceOf(t, s)
	return files
}

// fileOfTrace returns the name of the resource of a trace with a text.
func fileOfTrace(t *testing.T, files map[string]string, text string) string {
	t.Helper()
	for name, content := range files {
		if base, ok := strings.CutPrefix(name, "resources/"); ok && strings.Contains(content, text) {
			return base
		}
	}
	t.Fatal("the trace has no resource with ", text)
	return ""
}

// TestTraceViewer_OpensOneSession opens pages of the viewer of one session, with tickets and traces of another.
func TestTraceViewer_OpensOneSession(t *testing.T) {
	r, site := startTraceWorker(t, ""), newShop(t)
	site.extra = offer
	subject, second := r.recordShop(t, site), r.recordShop(t, site)
	f, other := filesOf{r, t, "/sessions/" + subject.Id.String(), nil}, filesOf{r, t, "/sessions/" + second.Id.String(), nil}
	link, _ := url.Parse(f.traceLink())
	foreign := strings.Replace(link.String(), subject.Id.String(), second.Id.String(), 1)
	if got := openTrace(t, foreign, ""); len(got.Actions) > 0 || !strings.Contains(got.Text, "sign in with the worker key") {
		t.Errorf("a ticket of another session shows %q", got.Text)
	}
	if answer, _ := other.expect(303, "GET", "/recording/viewer?"+link.RawQuery, ""); len(answer.Cookies()) != 0 {
		t.Error("a ticket of another session sets a cookie")
	}
	answer, _ := f.expect(303, "GET", "/recording/viewer?"+link.RawQuery, "")
	if len(answer.Cookies()) != 1 || answer.Header.Get("Location") != "./viewer" || answer.Cookies()[0].Path != f.base+"/recording" {
		t.Errorf("a ticket: %v", answer.Header)
	}
	cookie := []string{"Cookie", "svc_recording=" + answer.Cookies()[0].Value}
	f.expect(200, "GET", "/recording/trace", "", cookie...)
	other.expect(401, "GET", "/recording/trace", "", cookie...)
	if again, _ := f.expect(303, "GET", "/recording/viewer?"+link.RawQuery, ""); len(again.Cookies()) != 0 {
		t.Error("a spent ticket sets a cookie")
	}
	f.expect(200, "GET", "/recording/viewer", "")
}

// TestTraceViewer_ServesItsFilesOnly requests files of the viewer and others.
func TestTraceViewer_ServesItsFilesOnly(t *testing.T) {
	r := startTraceWorker(t, "")
	f := filesOf{r, t, "/sessions/0198a5c0-0000-7000-8000-000000000000", nil}
	base := r.url + f.base + "/recording/"
	answer, page := f.expect(200, "GET", "/recording/viewer/index.html", "")
	policy := answer.Header.Get("Content-Security-Policy")
	if strings.Contains(policy, "'self'") || strings.Contains(policy, "'unsafe-eval'") || !strings.Contains(policy, "script-src "+base+"viewer/assets/ "+base+"viewer/index.") ||
		!strings.HasSuffix(policy, "frame-ancestors 'none'") || !strings.Contains(page, "Playwright Trace Viewer") {
		t.Errorf("the policy is %s", policy)
	}
	answer, _ = f.expect(200, "GET", "/recording/viewer/sw.bundle.js", "")
	if want := "default-src 'none'; connect-src " + base + "viewer/ " + base + "trace;"; !strings.HasPrefix(answer.Header.Get("Content-Security-Policy"), want) {
		t.Errorf("the policy is %s, not %s", answer.Header.Get("Content-Security-Policy"), want)
	}
	f.expect(200, "HEAD", "/recording/viewer/playwright-logo.svg", "")
	for path, status := range map[string]int{
		"none.js": 404, "uiMode.html": 404, "assets%2fnone.js": 404, "assets": 404, "..%2fpackage.json": 400, "..%2f..%2fpackage.json": 400, ".hidden.js": 400, "a%2fb%2fc.js": 400,
		"assets%2f..%2findex.html": 400,
	} {
		f.expect(status, "GET", "/recording/viewer/"+path, "")
	}
	filesOf{r, t, "/sessions/none", nil}.expect(400, "GET", "/recording/viewer/index.html", "")
	filesOf{r, t, "/sessions/none", nil}.expect(400, "GET", "/recording/viewer", "")
}

// TestTraceViewer_NamesCommandThatInstallsIt opens the viewer without playwright-core, and with a version that cannot read traces.
func TestTraceViewer_NamesCommandThatInstallsIt(t *testing.T) {
	others := t.TempDir()
	for _, version := range []string{"1.56.9"} {
		viewer := filepath.Join(others, version, "lib/vite/traceViewer")
		manifest := fmt.Sprintf(`{"name":"playwright-core","version":%q}`, version)
		if err := errors.Join(os.MkdirAll(viewer, 0o755), os.WriteFile(filepath.Join(others, version, "package.json"), []byte(manifest), 0o600),
			os.WriteFile(filepath.Join(viewer, "index.html"), []byte("other"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{t.TempDir(), others} {
		r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.PlaywrightDir = dir })
		_, text := filesOf{r, t, "/sessions/0198a5c0-0000-7000-8000-000000000000", nil}.expect(http.StatusNotImplemented, "GET", "/recording/viewer/index.html", "")
		if !strings.Contains(text, "svc-worker playwright install 1.65") {
			t.Errorf("got %s", text)
		}
	}
}
