package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// httpArchive is an HTTP archive.
type httpArchive struct {
	Log struct {
		Version string
		Creator har.Browser
		Browser har.Browser
		Pages   []har.Page
		Entries []har.Entry
		Comment string
	}
}

func (a httpArchive) find(path string) (found []har.Entry) {
	for _, e := range a.Log.Entries {
		if address, _, _ := strings.Cut(e.Request.URL, "?"); strings.HasSuffix(address, path) {
			found = append(found, e)
		}
	}
	return found
}

// httpArchive returns the archive of a session.
func (f filesOf) httpArchive() (httpArchive, string) {
	f.t.Helper()
	answer, text := f.expect(200, "GET", "/recording/har", "")
	if kind := answer.Header.Get("Content-Type"); kind != "application/json" || !strings.Contains(answer.Header.Get("Content-Disposition"), "session.har") {
		f.t.Errorf("headers %v", answer.Header)
	}
	return decode[httpArchive](f.t, []byte(text)), text
}

// awaitEntry waits until the archive of a running session has an entry.
func (f filesOf) awaitEntry(path string) har.Entry {
	f.t.Helper()
	var found []har.Entry
	testenv.Eventually(f.t, "the entry of "+path, func() bool {
		a, _ := f.httpArchive()
		found = a.find(path)
		return len(found) > 0
	})
	return found[0]
}

// TestRecordingHAR_IsSanitized records a sign-in with a secret, and searches for what must not be recorded.
func TestRecordingHAR_IsSanitized(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	planted := map[string]string{"cookie": "cookie-" + uuid.NewString(), "header": "token-" + uuid.NewString(), "typed": "typed+" + uuid.NewString()}
	site := newSignInSite(t, r)
	inner := site.Config.Handler
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: planted["cookie"]})
		if request.URL.Path == "/echo" {
			_, _ = io.Copy(w, request.Body)
			return
		}
		inner.ServeHTTP(w, request)
	})
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Record = sharedapi.RecordedParts{"har"} })
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"startUrls":[%q,%q]}}`, profile, site.URL+"/start", site.URL+"/second"))
	if s.Recording == nil || !s.Recording.Har || s.Recording.Video || s.Recording.State != workerapi.RecordingStateRecording {
		t.Fatalf("at the start: %+v", s.Recording)
	}
	own := r.filesOfSession(t, s)
	for _, path := range []string{"/start", "/second"} {
		if e := own.awaitEntry(path); e.Response.Content.Text != signInForm || e.PageRef == "" || e.Comment != "" {
			t.Errorf("the start URL: %+v", e)
		}
	}
	conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	_, page := openPage(t, conn, site.URL+"/form")
	evaluate(t, conn, page, `new Promise(resolve => { const poll = () => document.readyState === 'complete' && document.forms.length ? resolve() : setTimeout(poll, 5); poll() })`)
	evaluate(t, conn, page, fmt.Sprintf(`fetch('/typed', {method: 'POST', headers: {Authorization: 'Bearer %s'}, body: new URLSearchParams({password: %q, city: 'Rome'})}).then(r => r.text())`, planted["header"], planted["typed"]))
	for field, selector := range map[string]string{"username": "[name=user]", "password": "[name=password]", "totp": "[name=code]"} {
		if err := conn.Call(t.Context(), page, "Svc.fillSecret", map[string]any{"secret": "shop", "field": field, "selector": selector}, nil); err != nil {
			t.Fatal(err)
		}
	}
	evaluate(t, conn, page, `fetch('/echo', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({pin: document.forms[0].password.value, code: document.forms[0].code.value})}).then(r => r.text())`)
	evaluate(t, conn, page, `document.forms[0].submit()`)
	own.awaitEntry("/welcome")
	live := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Recording
	if live == nil || live.Bytes == 0 {
		t.Errorf("while it is recorded: %+v", live)
	}
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	if got := r.awaitRecording(t, s); got.State != workerapi.RecordingStateComplete || !got.Har {
		t.Errorf("at the end: %+v", got)
	}
	a, text := own.httpArchive()
	if a.Log.Version != "1.2" || a.Log.Browser.Name != "Chromium" || a.Log.Comment != "" || len(a.Log.Pages) < 3 {
		t.Errorf("the log: %.500s", text)
	}
	for name, value := range site.values {
		planted[string(name)] = value
	}
	for name, value := range planted {
		if strings.Contains(text, value) || strings.Contains(text, strings.ReplaceAll(value, "+", "%2B")) {
			t.Errorf("the archive contains the %s", name)
		}
	}
	want := map[string]string{"/typed": "password=***&city=Rome", "/echo": `{"pin":"***","code":"***"}`, "/welcome": "user=***&password=***&code=***"}
	for path, body := range want {
		if found := a.find(path); len(found) != 1 || found[0].Request.PostData == nil || found[0].Request.PostData.Text != body {
			t.Errorf("%s: %+v", path, found)
		}
	}
	if echo := a.find("/echo"); len(echo) == 1 && echo[0].Response.Content.Text != want["/echo"] {
		t.Errorf("the echo is %q", echo[0].Response.Content.Text)
	}
	own.expect(404, "GET", "/recording/events", "")
	filesOf{r, t, own.base, nil}.expect(401, "GET", "/recording/har", "")
	filesOf{r, t, "/sessions/none", own.token}.expect(400, "GET", "/recording/har", "")
}

// TestRecordingHAR_StartsAndStops records a part of a session, which ends while a request runs.
func TestRecordingHAR_StartsAndStops(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	s := r.launchRecorded(t, site, true, `[]`)
	f, own := r.filesOf(t, s), r.filesOfSession(t, s)
	own.expect(404, "GET", "/recording/har", "")
	if got := f.startRecording(`["har","events"]`); !got.Har || !got.Events || got.Frames {
		t.Errorf("started: %+v", got)
	}
	navigate := func(address string) {
		f.expect(200, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, address), "Content-Type", "application/json")
	}
	navigate(site.URL + "/page?during=1")
	e := own.awaitEntry("/page")
	own.awaitEntry("/missing") // the page requests /next at the same time
	f.expect(200, "DELETE", "/recording", "")
	navigate(site.URL + "/page?after=1")
	a, text := own.httpArchive()
	if found := a.find("/page"); len(found) != 1 || found[0].Request.URL != e.Request.URL || !strings.HasSuffix(e.Request.URL, "during=1") {
		t.Errorf("got %s", text)
	}
	for _, unfinished := range a.find("/next") {
		if !strings.Contains(unfinished.Comment, "ended before the response") || unfinished.Response.Status != 0 {
			t.Errorf("unfinished: %+v", unfinished)
		}
	}
	if len(a.find("/next")) != 1 || !json.Valid([]byte(text)) {
		t.Errorf("got %s", text)
	}
}
