package httpd_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/httpd"
)

// document is a small document.
type document struct{}

func (document) JSON() []byte {
	return []byte(`{"openapi":"3.0.3","info":{"title":"Test surface","version":"1.2.3","description":"A *small* one."},
"servers":[{"url":"/"}],"tags":[{"name":"plans","description":"What can be bought"}],
"paths":{"/v1/plans":{"get":{"tags":["plans"],"operationId":"listPlans","summary":"List the plans",
"parameters":[{"name":"limit","in":"query","schema":{"type":"integer","minimum":1}}],
"responses":{"200":{"description":"The plans","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Plan"},
"example":{"id":"p1","name":"free"}}}}}}}},
"components":{"schemas":{"Plan":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"}}}}}}`)
}
func (document) YAML() []byte   { return []byte("openapi: 3.0.3\n") }
func (document) JSON31() []byte { return []byte(`{"openapi":"3.1.0"}`) }
func (document) YAML31() []byte { return []byte("openapi: 3.1.0\n") }

func (document) ContractVersion() string                       { return "1.2.3" }
func (document) DeprecationHeaders(string, string) http.Header { return nil }
func (document) OperationID(method, route string) string       { return operations[method+" "+route] }

func TestExplorer_ServesDocumentsAndFiles(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: document{}})
	const css, script = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
	for path, want := range map[string]struct{ contentType, content string }{
		"/openapi.json":                          {"application/json", `"listPlans"`},
		"/openapi.yaml":                          {"application/yaml", "openapi: 3.0.3"},
		"/openapi-3.1.json":                      {"application/json", `"3.1.0"`},
		"/openapi-3.1.yaml":                      {"application/yaml", "openapi: 3.1.0"},
		"/docs":                                  {"text/html; charset=utf-8", `src="docs/explorer.js"`},
		"/docs/explorer.js":                      {script, "SwaggerUIBundle"},
		"/docs/page.css":                         {css, ".facts"},
		"/docs/tokens.css":                       {css, "--accent"},
		"/docs/swagger-ui-bundle.js":             {script, "SwaggerUIBundle"},
		"/docs/swagger-ui.css":                   {css, "@layer swagger {"},
		"/docs/swagger-ui-bundle.js.LICENSE.txt": {"text/plain; charset=utf-8", "DOMPurify"},
		"/docs/icon.svg":                         {"image/svg+xml", "<svg"},
	} {
		w := do(e, "GET", path)
		if w.Code != 200 || w.Header().Get("Content-Type") != want.contentType || !strings.Contains(w.Body.String(), want.content) {
			t.Errorf("%s: %d %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(path, "docs") != strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if kept := w.Header().Get("Cache-Control"); kept != "no-cache" { // clients must revalidate it each time
			t.Errorf("%s: Cache-Control %q", path, kept)
		}
		tag := w.Header().Get("ETag")
		if again := do(e, "GET", path, "If-None-Match", tag); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s again with %s: %d", path, tag, again.Code)
		}
		zipped := do(e, "GET", path, "Accept-Encoding", "br, gzip;q=0.8")
		if zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Header().Get("ETag") == tag {
			t.Errorf("%s zipped: %v", path, zipped.Header())
			continue
		}
		if plain := unzip(t, zipped.Body); !bytes.Equal(plain, w.Body.Bytes()) {
			t.Errorf("%s: the zipped content differs", path)
		}
		if head := do(e, "HEAD", path); head.Code != 200 || head.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d, %d bytes", path, head.Code, head.Body.Len())
		}
		if refused := do(e, "GET", path, "Accept-Encoding", "gzip;q=0"); refused.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: zipped for a client that refuses it", path)
		}
	}
	if w := do(e, "GET", "/docs/"); w.Code != 308 || w.Header().Get("Location") != "../docs" {
		t.Errorf("/docs/: %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"/docs/index.html", "/docs/VERSION", "/docs/swagger-ui"} {
		if w := do(e, "GET", path); w.Code != 404 {
			t.Errorf("%s, which is not part of the page: got %d", path, w.Code)
		}
	}
}

// TestExplorer_ServesReferencedFiles follows all references in the page, like a browser
// that loaded it behind a prefix.
func TestExplorer_ServesReferencedFiles(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: document{}})
	page, err := url.Parse("https://fleet.test/w/7/docs")
	if err != nil {
		t.Fatal(err)
	}
	references := regexp.MustCompile(`(?:href|src)="([^"]+)"`).FindAllStringSubmatch(do(e, "GET", "/docs").Body.String(), -1)
	if len(references) < 12 {
		t.Fatalf("only %d references found", len(references))
	}
	for _, reference := range references {
		target, err := page.Parse(reference[1])
		if err != nil {
			t.Fatal(err)
		}
		rest, below := strings.CutPrefix(target.String(), "https://fleet.test/w/7/")
		if !below {
			t.Errorf("%s refers to %s, outside of the prefix", reference[1], target)
		} else if w := do(e, "GET", "/"+rest); w.Code != 200 {
			t.Errorf("%s: got %d", reference[1], w.Code)
		}
	}
}

func unzip(t *testing.T, r io.Reader) []byte {
	t.Helper()
	zr, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestExplorer_HasStrictContentSecurityPolicy(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: document{}})
	w := do(e, "GET", "/docs")
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy = %q", policy)
	}
	for tag := range strings.SplitSeq(w.Body.String(), "<script") {
		if body, _, isScript := strings.Cut(tag, "</script>"); isScript && !strings.HasSuffix(body, ">") {
			t.Errorf("inline script: %q", body)
		}
	}
}

func TestExplorer_IsMissingWithoutDocument(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	if w := do(e, "GET", "/docs"); w.Code != 404 {
		t.Errorf("/docs: %d", w.Code)
	}
}
