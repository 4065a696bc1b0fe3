package devtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// newSite serves the pages that the browsers of tests visit.
func newSite(t testing.TB) string {
	t.Helper()
	server := testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/red":
			fmt.Fprint(w, `<!doctype html><title>Red</title><body style="margin:0;background:#f00">`)
		case "/tall":
			fmt.Fprint(w, `<!doctype html><title>Tall</title><body style="margin:0;height:3000px;background:#00f">`)
		case "/endless":
			fmt.Fprint(w, `<!doctype html><title>Endless</title><body style="margin:0;height:200000px">`)
		case "/redirected":
			http.Redirect(w, r, "/red", http.StatusFound)
		case "/sent-on":
			fmt.Fprint(w, `<!doctype html><title>Gone</title><script>location.replace("/red")</script><img src="/never">`)
		case "/heavy":
			fmt.Fprint(w, `<!doctype html><title>Heavy</title><img src="/never">`)
		case "/alert":
			fmt.Fprint(w, `<!doctype html><title>Alert</title><body><script>alert('stop')</script><img src="/late">`)
		case "/late": // longer than dialogTimeout
			select {
			case <-time.After(3 * time.Second):
			case <-r.Context().Done():
			}
		case "/silent", "/never":
			<-r.Context().Done()
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.NotFound(w, r)
		}
	}))
	return server.URL
}

func (w *testServer) controlHeader(t testing.TB) []string {
	t.Helper()
	return []string{"X-Svc-Token", w.token(t, ticket.Control)}
}

// post sends a request and decodes the answer.
func post[T any](t testing.TB, w *testServer, path, body string) (response, T) {
	t.Helper()
	got := send(t, "POST", w.path(path), body, w.controlHeader(t)...)
	var decoded T
	if err := json.Unmarshal([]byte(got.body), &decoded); err != nil {
		t.Fatalf("%s %s: %d %s: %v", path, body, got.status, got.body, err)
	}
	return got, decoded
}

type failure struct {
	Error struct {
		Code, Message string
		Details       []struct{ Field, Code string }
	}
}

func (w *testServer) assertRefused(t *testing.T, path, body string, status int, part string) failure {
	t.Helper()
	got, failed := post[failure](t, w, path, body)
	if got.status != status || !strings.Contains(got.body, part) {
		t.Errorf("%s %s: %d %s, want %d %s", path, body, got.status, got.body, status, part)
	}
	return failed
}

func TestHelpers_RealBrowser(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	site := newSite(t)
	visit := func(t *testing.T, path string) workerapi.Navigation {
		t.Helper()
		got, reached := post[workerapi.NavigateResponse](t, w, "/navigate", `{"url":"`+site+path+`"}`)
		if got.status != 200 {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
		return reached.Data
	}

	t.Run("navigate returns the reached page", func(t *testing.T) {
		for path, want := range map[string]workerapi.Navigation{
			"/red": {Url: site + "/red", Title: "Red"}, "/redirected": {Url: site + "/red", Title: "Red"},
			"/red#part": {Url: site + "/red#part", Title: "Red"}, "/sent-on": {Url: site + "/red", Title: "Red"},
		} {
			got := visit(t, path)
			want.TargetId = got.TargetId
			if diff := cmp.Diff(want, got); diff != "" || got.TargetId == "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
		for _, body := range []string{`{"url":"about:blank"}`, `{"url":"` + site + `/heavy","waitUntil":"none"}`, `{"url":"` + site + `/heavy","waitUntil":"domcontentloaded"}`} {
			if got, _ := post[workerapi.NavigateResponse](t, w, "/navigate", body); got.status != 200 {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
	})

	t.Run("navigate returns errors", func(t *testing.T) {
		w.assertRefused(t, "/navigate", `{"url":"http://no.such.host.invalid/"}`, 502, "net::ERR_NAME_NOT_RESOLVED")
		w.assertRefused(t, "/navigate", `{"url":"http://127.0.0.1:1/"}`, 502, "net::ERR_")
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/nothing"}`, 502, "net::ERR_ABORTED")
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/heavy","timeoutMs":500}`, 504, "not ready in time")
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/silent","timeoutMs":500,"waitUntil":"none"}`, 504, "not ready in time")
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/red","targetId":"ABC"}`, 404, "no such target")
		for _, address := range []string{"file:///etc/passwd", "javascript:alert(1)", "chrome://version", "data:text/html,x", " file:///etc/passwd",
			"HTTPS:", "http:///x", "about:srcdoc", "view-source:http://a/", "http://a\\nb/", "", "//a/"} {
			if failed := w.assertRefused(t, "/navigate", `{"url":"`+address+`"}`, 400, "VALIDATION_ERROR"); len(failed.Error.Details) == 0 || failed.Error.Details[0].Field != "url" {
				t.Errorf("%q: %+v", address, failed)
			}
		}
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/red","waitUntil":"x"}`, 400, "waitUntil")
		w.assertRefused(t, "/navigate", `{"url":"`+site+`/red","other":1}`, 400, "UNRECOGNIZED_KEY")
	})

	t.Run("screenshot shows the page", func(t *testing.T) {
		visit(t, "/red")
		for query, want := range map[string]string{"": "png", "?format=png": "png", "?format=jpeg": "jpeg", "?format=jpeg&quality=5": "jpeg"} {
			picture, format := w.screenshot(t, "/screenshot"+query)
			if red, green, _, _ := picture.At(picture.Bounds().Dx()-10, 10).RGBA(); format != want || red < 0xf000 || green > 0x1000 {
				t.Errorf("%s: got a %s with red %x, green %x", query, format, red, green)
			}
		}
		fine := do(t, "GET", w.path("/screenshot?format=jpeg&quality=100"), w.controlHeader(t)...)
		rough := do(t, "GET", w.path("/screenshot?format=jpeg&quality=1"), w.controlHeader(t)...)
		if len(fine.body) <= len(rough.body) || fine.header.Get("Content-Type") != "image/jpeg" || fine.header.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d bytes with the best quality, %d with the worst, %v", len(fine.body), len(rough.body), fine.header)
		}
	})

	t.Run("preview is scaled down", func(t *testing.T) {
		visit(t, "/red")
		plain, _ := w.screenshot(t, "/screenshot")
		size := plain.Bounds()
		for query, wide := range map[string]int{"?width=320": 320, "?width=64&format=jpeg&quality=40": 64, "?width=1920": size.Dx()} {
			picture, format := w.screenshot(t, "/screenshot"+query)
			got := picture.Bounds()
			if tall := wide * size.Dy() / size.Dx(); got.Dx() != wide || got.Dy() < tall-1 || got.Dy() > tall+1 {
				t.Errorf("%s: got %s of %s", query, got, size)
			}
			if red, green, _, _ := picture.At(got.Dx()-10, 10).RGBA(); red < 0xf000 || green > 0x1000 || strings.Contains(query, format) == (format == "png") {
				t.Errorf("%s: got a %s with red %x, green %x", query, format, red, green)
			}
		}
		visit(t, "/tall")
		if all, _ := w.screenshot(t, "/screenshot?fullPage=true&width=128"); all.Bounds().Dx() != 128 || all.Bounds().Dy() < 290 {
			t.Errorf("got %s of the full page", all.Bounds())
		}
		behind := w.newTab(t)
		if got := w.navigate(t, behind, site+"/red", "load"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		w.newTab(t)
		for range 6 {
			if picture, _ := w.screenshot(t, "/screenshot?width=200&targetId="+behind); picture.Bounds().Dx() != 200 {
				t.Errorf("got %s of a background tab", picture.Bounds())
			}
		}
		if got := w.navigate(t, behind, site+"/tall", "load"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		picture, _ := w.screenshot(t, "/screenshot?width=200&targetId="+behind)
		if _, _, blue, _ := picture.At(100, 10).RGBA(); blue < 0xf000 {
			t.Errorf("got a picture with blue %x of a page that was never in the foreground", blue)
		}
	})

	t.Run("preview does not change the page", func(t *testing.T) {
		visit(t, "/red")
		id := w.pages(t)[0]
		client := w.dial(t, "/devtools/page/"+id)
		state := func() (value string) {
			t.Helper()
			var answer struct {
				Result struct{ Result struct{ Value string } }
			}
			call(t, client, `{"id":2,"method":"Runtime.evaluate","params":{"expression":"`+
				`window.changes ??= (addEventListener('resize', () => changes.push('resize')), addEventListener('focus', () => changes.push('focus')),`+
				` addEventListener('blur', () => changes.push('blur')), []); `+
				`[innerWidth, innerHeight, devicePixelRatio, document.hasFocus(), document.visibilityState, ...changes].join()"}}`, &answer)
			return answer.Result.Result.Value
		}
		var answer struct{ Result struct{} }
		call(t, client, `{"id":1,"method":"Emulation.setDeviceMetricsOverride","params":{"width":1000,"height":700,"deviceScaleFactor":2,"mobile":false}}`, &answer)
		// The page's resize event comes with a later frame than the answer.
		call(t, client, `{"id":3,"method":"Runtime.evaluate","params":{"awaitPromise":true,"expression":"`+
			`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"}}`, &answer)
		before := state()
		if !strings.HasPrefix(before, "1000,700,2,") {
			t.Fatalf("the page has %s", before)
		}
		for _, format := range []string{"png", "jpeg"} {
			if picture, _ := w.screenshot(t, "/screenshot?width=320&targetId="+id+"&format="+format); picture.Bounds().Dx() != 320 {
				t.Errorf("got %s", picture.Bounds())
			}
		}
		time.Sleep(100 * time.Millisecond) // a change would arrive late
		if after := state(); after != before {
			t.Errorf("the page had %s, now %s", before, after)
		}
	})

	t.Run("screenshot of a background tab", func(t *testing.T) {
		visit(t, "/red")
		behind := w.newTab(t)
		if got := w.navigate(t, behind, site+"/tall", "load"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		w.newTab(t)
		for range 6 {
			w.screenshot(t, "/screenshot?targetId="+behind)
		}
	})

	t.Run("screenshot of the full page", func(t *testing.T) {
		visit(t, "/tall")
		inSight, _ := w.screenshot(t, "/screenshot?fullPage=false")
		all, _ := w.screenshot(t, "/screenshot?fullPage=true")
		if got := all.Bounds().Dy(); got != 3000 || inSight.Bounds().Dy() >= 3000 {
			t.Errorf("got %d of 3000 pixels, the window shows %d", got, inSight.Bounds().Dy())
		}
		if _, _, blue, _ := all.At(10, 2990).RGBA(); blue < 0xf000 {
			t.Error("the screenshot lacks the end of the page")
		}
		visit(t, "/endless")
		if all, _ := w.screenshot(t, "/screenshot?fullPage=true"); all.Bounds().Dy() != 16384 {
			t.Errorf("got %d pixels of a very long page", all.Bounds().Dy())
		}
	})

	t.Run("pdf", func(t *testing.T) {
		visit(t, "/red")
		for _, query := range []string{"", "?landscape=true&printBackground=true&scale=0.5&paperFormat=letter"} {
			got := do(t, "GET", w.path("/pdf"+query), w.controlHeader(t)...)
			if got.status != 200 || got.header.Get("Content-Type") != "application/pdf" || !strings.HasPrefix(got.body, "%PDF-") {
				t.Errorf("%s: %d %v %.80s", query, got.status, got.header, got.body)
			}
		}
		page := func(query string) (box string) {
			got := do(t, "GET", w.path("/pdf"+query), w.controlHeader(t)...)
			_, box, _ = strings.Cut(got.body, "/MediaBox [")
			box, _, _ = strings.Cut(box, "]")
			return box
		}
		if up, across := page("?paperFormat=letter"), page("?paperFormat=letter&landscape=true"); up != "0 0 612 792" || across != "0 0 792 612" {
			t.Errorf("letter is %s, landscape %s", up, across)
		}
	})

	t.Run("wrong parameters", func(t *testing.T) {
		for _, query := range []string{"/screenshot?format=gif", "/screenshot?quality=0", "/screenshot?quality=101", "/screenshot?quality=x", "/screenshot?fullPage=maybe",
			"/screenshot?other=1", "/screenshot?width=63", "/screenshot?width=1921", "/screenshot?width=x", "/pdf?scale=3", "/pdf?paperFormat=a99", "/pdf?landscape=2"} {
			if got := do(t, "GET", w.path(query), w.controlHeader(t)...); got.status != 400 || !strings.Contains(got.body, "VALIDATION_ERROR") {
				t.Errorf("%s: %d %s", query, got.status, got.body)
			}
		}
		if got := do(t, "GET", w.path("/screenshot?targetId=ABC"), w.controlHeader(t)...); got.status != 404 {
			t.Errorf("no such target: %d %s", got.status, got.body)
		}
	})

	t.Run("close closes the last tab", func(t *testing.T) {
		id := w.newTab(t)
		got, closed := post[workerapi.CloseResponse](t, w, "/close", `{"targetId":"`+id+`"}`)
		if got.status != 200 || closed.Data.LaunchId.String() != launch || *closed.Data.TargetId != id {
			t.Errorf("%d %s", got.status, got.body)
		}
		if list := do(t, "GET", w.path("/json/list"), w.controlHeader(t)...); strings.Contains(list.body, id) {
			t.Errorf("the closed tab is still listed: %s", list.body)
		}
		w.assertRefused(t, "/close", `{"targetId":"`+id+`"}`, 404, "no such target")
		for _, id := range w.pages(t) {
			post[workerapi.CloseResponse](t, w, "/close", `{"targetId":"`+id+`"}`)
		}
		w.assertRefused(t, "/navigate", `{"url":"about:blank"}`, 409, "no page open")
		for _, path := range []string{"/screenshot", "/pdf", "/devtools/"} {
			if got := do(t, "GET", w.path(path), w.controlHeader(t)...); got.status != 409 || !strings.Contains(got.body, "RESOURCE_CONFLICT") {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
	})

	t.Run("close ends the browser", func(t *testing.T) {
		got, closed := post[workerapi.CloseResponse](t, w, "/close", "")
		if got.status != 200 || closed.Data.TargetId != nil || <-w.ended != launch {
			t.Errorf("%d %s", got.status, got.body)
		}
	})

	if err := b.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/screenshot", "/pdf", "/json/version"} {
		if got := do(t, "GET", w.path(path), w.controlHeader(t)...); got.status != 404 || got.body != "unknown browser" {
			t.Errorf("%s after the end: got %d %s", path, got.status, got.body)
		}
	}
}

// screenshot takes a screenshot and returns it with its format.
func (w *testServer) screenshot(t *testing.T, path string) (image.Image, string) {
	t.Helper()
	got := do(t, "GET", w.path(path), w.controlHeader(t)...)
	picture, format, err := image.Decode(strings.NewReader(got.body))
	if err != nil {
		t.Fatalf("%s: %d %.200s: %v", path, got.status, got.body, err)
	}
	if want := "image/" + format; got.header.Get("Content-Type") != want {
		t.Errorf("%s: got a %s with Content-Type %s", path, format, got.header.Get("Content-Type"))
	}
	return picture, format
}

func (w *testServer) newTab(t *testing.T) (id string) {
	t.Helper()
	opened := send(t, "PUT", w.path("/json/new?about:blank"), "", w.controlHeader(t)...)
	var tab struct{ ID string }
	if err := json.Unmarshal([]byte(opened.body), &tab); err != nil || tab.ID == "" {
		t.Fatalf("%d %s", opened.status, opened.body)
	}
	return tab.ID
}

// pages returns the ids of the tabs.
func (w *testServer) pages(t *testing.T) []string {
	t.Helper()
	var list []struct{ ID, Type string }
	if err := json.Unmarshal([]byte(do(t, "GET", w.path("/json/list"), w.controlHeader(t)...).body), &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, target := range list {
		if target.Type == "page" {
			ids = append(ids, target.ID)
		}
	}
	return ids
}
