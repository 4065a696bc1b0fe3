package webapp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/webapp"
)

const page = `<!doctype html><base href="/"><script type="module" src="assets/main-4XBQ2T7C.js"></script>`

var script = strings.Repeat("export const answer = 42;\n", 100)

func files() fstest.MapFS {
	return fstest.MapFS{
		"index.html":                 {Data: []byte(page)},
		"assets/main-4XBQ2T7C.js":    {Data: []byte(script)},
		"assets/main-4XBQ2T7C.css":   {Data: []byte("body { margin: 0 }")},
		"assets/logo-9K2LMN3P.svg":   {Data: []byte("<svg xmlns='http://www.w3.org/2000/svg'/>")},
		"assets/fonts/text-AA.woff2": {Data: []byte("wOF2")},
	}
}

func serve(t *testing.T, options webapp.Options) *echo.Echo {
	t.Helper()
	bundle, err := webapp.New(files(), options)
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{})
	bundle.Register(e, "/", "/sessions/:id")
	return e
}

func do(e http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func TestBundle_ServesPageAtEachRoute(t *testing.T) {
	e := serve(t, webapp.Options{})
	for _, path := range []string{"/", "/sessions/019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a01", "/?a=b"} {
		w := do(e, "GET", path)
		if w.Code != 200 || w.Body.String() != page || w.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
			w.Header().Get("Cache-Control") != "no-cache" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; media-src 'self'; " +
			"form-action 'self'; base-uri 'self'; frame-ancestors 'none'; manifest-src 'self'"
		if got := w.Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: policy %q, want %q", path, got, want)
		}
		tag := w.Header().Get("ETag")
		if again := do(e, "GET", path, "If-None-Match", tag); tag == "" || again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s again with %s: %d", path, tag, again.Code)
		}
		if head := do(e, "HEAD", path); head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("ETag") != tag {
			t.Errorf("HEAD %s: %d, %d bytes, %v", path, head.Code, head.Body.Len(), head.Header())
		}
	}
	if w := do(e, "POST", "/"); w.Code != 405 {
		t.Errorf("POST /: %d", w.Code)
	}
	framed := do(serve(t, webapp.Options{Frames: true}), "GET", "/").Header().Get("Content-Security-Policy")
	if !strings.HasSuffix(framed, "; frame-src 'self'") {
		t.Errorf("with frames: policy %q", framed)
	}
}

func TestBundle_PageHasBasePathOfPublicURL(t *testing.T) {
	for public, want := range map[string]string{
		"https://svc.example":          `<base href="/">`,
		"https://svc.example/":         `<base href="/">`,
		"https://svc.example/cloud":    `<base href="/cloud/">`,
		"https://svc.example/a/b/":     `<base href="/a/b/">`,
		`https://svc.example/a"><b>&c`: `<base href="/a%22%3E%3Cb%3E&amp;c/">`,
	} {
		address, err := url.Parse(public)
		if err != nil {
			t.Fatal(err)
		}
		if got := do(serve(t, webapp.Options{Public: address}), "GET", "/").Body.String(); strings.Count(got, "<base ") != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", public, got, want)
		}
	}
}

func TestBundle_ServesImmutableAssets(t *testing.T) {
	e := serve(t, webapp.Options{})
	for path, want := range map[string]struct{ contentType, content, vary string }{
		"/assets/main-4XBQ2T7C.js":    {"text/javascript; charset=utf-8", script, "Accept-Encoding"},
		"/assets/main-4XBQ2T7C.css":   {"text/css; charset=utf-8", "body { margin: 0 }", "Accept-Encoding"},
		"/assets/logo-9K2LMN3P.svg":   {"image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>", "Accept-Encoding"},
		"/assets/fonts/text-AA.woff2": {"font/woff2", "wOF2", ""},
	} {
		w := do(e, "GET", path)
		if w.Code != 200 || w.Header().Get("Content-Type") != want.contentType || w.Body.String() != want.content ||
			w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || w.Header().Get("Vary") != want.vary {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if again := do(e, "GET", path, "If-None-Match", w.Header().Get("ETag")); again.Code != 304 {
			t.Errorf("%s again: %d", path, again.Code)
		}
		head := do(e, "HEAD", path, "Accept-Encoding", "br")
		if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") == "" {
			t.Errorf("HEAD %s: %d %v", path, head.Code, head.Header())
		}
	}
	if w := do(e, "GET", "/assets/fonts/text-AA.woff2", "Accept-Encoding", "br, gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Errorf("a compressed format is compressed again: %v", w.Header())
	}
}

func TestBundle_NegotiatesContentEncoding(t *testing.T) {
	e := serve(t, webapp.Options{})
	tags := map[string]string{}
	for accepted, want := range map[string]string{
		"":                                "",
		"br":                              "br",
		"gzip":                            "gzip",
		"gzip, deflate, br, zstd":         "br",
		"GZIP":                            "gzip",
		"gzip;q=1.0, br;q=0.5":            "gzip",
		"br;q=0, gzip;q=0.1":              "gzip",
		"br ; q=0.2 , gzip ; Q=0.2":       "br",
		"br;q=0, gzip;q=0":                "",
		"*":                               "br",
		"*;q=0.5, br;q=0":                 "gzip",
		"gzip, *;q=0":                     "gzip",
		"identity":                        "",
		"identity;q=0.5, gzip;q=0.4":      "",
		"identity;q=0.5, gzip;q=0.5":      "gzip",
		"br;q=x, gzip;q=2":                "",
		"br;q=NaN, gzip;level=1":          "",
		"deflate, zstd":                   "",
		"brotli, x-gzip, bread, gzip-ish": "",
	} {
		w := do(e, "GET", "/assets/main-4XBQ2T7C.js", "Accept-Encoding", accepted)
		if got := w.Header().Get("Content-Encoding"); w.Code != 200 || got != want {
			t.Errorf("%q: %d, Content-Encoding %q, want %q", accepted, w.Code, got, want)
			continue
		}
		if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%q: Content-Length %s, %d bytes", accepted, got, w.Body.Len())
		}
		if want != "" && w.Body.Len() > len(script)/4 {
			t.Errorf("%q: %d bytes", accepted, w.Body.Len())
		}
		tags[want] = w.Header().Get("ETag")
		if got := decoded(t, want, w.Body); got != script {
			t.Errorf("%q: the content differs", accepted)
		}
	}
	if tags["br"] == tags["gzip"] || tags["br"] == tags[""] || tags["gzip"] == tags[""] {
		t.Errorf("the encodings share an ETag: %v", tags)
	}
	if w := do(e, "GET", "/assets/main-4XBQ2T7C.js", "Accept-Encoding", "gzip;q=0.5", "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "br" {
		t.Errorf("the second Accept-Encoding is ignored: %v", w.Header())
	}
	part := do(e, "GET", "/assets/main-4XBQ2T7C.js", "Accept-Encoding", "br", "Range", "bytes=0-5")
	if part.Code != 206 || part.Body.String() != "export" {
		t.Errorf("a range: %d %s", part.Code, part.Body)
	}
}

func decoded(t *testing.T, encoding string, body io.Reader) string {
	t.Helper()
	switch encoding {
	case "br":
		body = brotli.NewReader(body)
	case "gzip":
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestBundle_UnknownPathsReturnFailureEnvelope(t *testing.T) {
	e := serve(t, webapp.Options{})
	for _, path := range []string{
		"/assets/main-OLD.js", "/assets/", "/assets", "/assets/fonts", "/assets/../index.html", "/assets/%2e%2e/index.html",
		"/index.html", "/unknown", "/sessions", "/sessions/", "/sessions/a/b", "/v1/unknown",
	} {
		w := do(e, "GET", path, "Accept-Encoding", "br")
		var envelope struct {
			Success bool
			Error   struct{ Code string }
		}
		err := json.Unmarshal(w.Body.Bytes(), &envelope)
		if w.Code != 404 || err != nil || envelope.Error.Code != "RESOURCE_NOT_FOUND" || w.Header().Get("Cache-Control") != "no-store" ||
			w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
}

// countingFS counts how often a file is opened.
type countingFS struct {
	fstest.MapFS
	mu    sync.Mutex
	reads map[string]int
}

func (f *countingFS) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads[name]++
	return f.MapFS.ReadFile(name)
}

func TestBundle_ReadsAssetOnceAtFirstRequest(t *testing.T) {
	counted := &countingFS{MapFS: files(), reads: map[string]int{}}
	bundle, err := webapp.New(counted, webapp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{})
	bundle.Register(e, "/")
	const name = "assets/main-4XBQ2T7C.js"
	if counted.reads[name] != 0 {
		t.Error("the asset is read at the start")
	}
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() { do(e, "GET", "/"+name, "Accept-Encoding", "br") })
	}
	requests.Wait()
	if counted.reads[name] != 1 {
		t.Errorf("the asset was read %d times", counted.reads[name])
	}
}

func TestNew_RefusesIncompleteFiles(t *testing.T) {
	for _, test := range []struct {
		change func(fstest.MapFS)
		want   string
	}{
		{func(f fstest.MapFS) { delete(f, "index.html") }, "index.html"},
		{func(f fstest.MapFS) { f["index.html"].Data = []byte("<!doctype html>") }, `index.html must contain <base href="/"> exactly once`},
		{func(f fstest.MapFS) { f["index.html"].Data = bytes.Repeat(f["index.html"].Data, 2) }, "exactly once"},
		{func(f fstest.MapFS) { f["assets/main.exe"] = &fstest.MapFile{} }, `assets/main.exe: the content type of ".exe" is unknown`},
		{func(f fstest.MapFS) {
			for name := range f {
				if strings.HasPrefix(name, "assets/") {
					delete(f, name)
				}
			}
		}, "assets"},
	} {
		broken := files()
		test.change(broken)
		if _, err := webapp.New(broken, webapp.Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}
