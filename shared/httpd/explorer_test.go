package httpd_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
)

// document is a description small enough to know by heart.
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

func TestDocumentsAndExplorerFilesAreServed(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: document{}})
	for path, want := range map[string]struct{ contentType, content string }{
		"/openapi.json":                          {"application/json", `"listPlans"`},
		"/openapi.yaml":                          {"application/yaml", "openapi: 3.0.3"},
		"/openapi-3.1.json":                      {"application/json", `"3.1.0"`},
		"/docs":                                  {"text/html; charset=utf-8", `src="docs/explorer.js"`},
		"/docs/explorer.js":                      {"text/javascript; charset=utf-8", "SwaggerUIBundle"},
		"/docs/explorer.css":                     {"text/css; charset=utf-8", ".documents"},
		"/docs/swagger-ui-bundle.js":             {"text/javascript; charset=utf-8", "SwaggerUIBundle"},
		"/docs/swagger-ui.css":                   {"text/css; charset=utf-8", ".swagger-ui"},
		"/docs/swagger-ui-bundle.js.LICENSE.txt": {"text/plain; charset=utf-8", "DOMPurify"},
		"/docs/favicon-32x32.png":                {"image/png", "PNG"},
	} {
		w := do(e, "GET", path)
		if w.Code != 200 || w.Header().Get("Content-Type") != want.contentType || !strings.Contains(w.Body.String(), want.content) {
			t.Errorf("%s: %d %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
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
	if w := do(e, "GET", "/docs/index.html"); w.Code != 404 {
		t.Errorf("a file that is not listed: %d", w.Code)
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

func TestThePageHasAStrictPolicyAndNoInlineScript(t *testing.T) {
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

func TestWithoutADocumentThereIsNoExplorer(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	if w := do(e, "GET", "/docs"); w.Code != 404 {
		t.Errorf("/docs: %d", w.Code)
	}
}

// TestTheExplorerWorksInABrowser opens the page in Chromium, at the root and
// behind a prefix, with a policy that reports every violation to the test.
func TestTheExplorerWorksInABrowser(t *testing.T) {
	for _, prefix := range []string{"", "/w/0190-worker"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			e, book := newServer(t, httpd.Options{Document: document{}})
			var mu sync.Mutex
			var violations, stray []string
			e.POST("/violation", func(c echo.Context) error {
				report, err := io.ReadAll(c.Request().Body)
				mu.Lock()
				defer mu.Unlock()
				violations = append(violations, string(report))
				return err
			})
			e.GET("/v1/plans", func(c echo.Context) error {
				return c.JSON(200, map[string]string{"note": "answered by the server"})
			})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == prefix+"/docs/explorer.js" {
					defer func() { _, _ = io.WriteString(w, pressExecute) }()
					r.Header.Del("Accept-Encoding")
				}
				if !strings.HasPrefix(r.URL.Path, prefix+"/") {
					mu.Lock()
					stray = append(stray, r.URL.Path)
					mu.Unlock()
				}
				reporting := &reportingWriter{ResponseWriter: w, to: prefix + "/violation"}
				http.StripPrefix(prefix, e).ServeHTTP(reporting, r)
			}))
			defer server.Close()

			page, console := browse(t, server.URL+prefix+"/docs#/plans/listPlans")
			for _, want := range []string{"<title>Test surface</title>", "List the plans", "/v1/plans", server.URL + prefix + `"`, "The plans", "free", "answered by the server", `aria-label="Server"`, `aria-label="limit"`, `tabindex="0"`} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			if strings.Contains(page, `class="nostyle" href`) {
				t.Error("the button of an operation has a link inside")
			}
			if strings.Contains(console, "CONSOLE") {
				t.Errorf("the console says:\n%s", console)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(violations) > 0 {
				t.Errorf("policy violations:\n%s", strings.Join(violations, "\n"))
			}
			if len(stray) > 0 {
				t.Errorf("requests outside the prefix: %v", stray)
			}
			if strings.Contains(book.String(), `"status":404`) {
				t.Errorf("something was missing:\n%s", book)
			}
		})
	}
}

// pressExecute plays the visitor: it calls the operation that the page shows,
// once Swagger UI has resolved it and shows what it answers.
const pressExecute = `
const waiting = setInterval(() => {
  const execute = document.querySelector("button.execute");
  if (!execute || !document.querySelector(".responses-table .example")) return;
  clearInterval(waiting);
  setTimeout(() => execute.click(), 1000);
}, 100);`

// reportingWriter has the browser report what the page's policy forbids.
type reportingWriter struct {
	http.ResponseWriter
	to string
}

func (w *reportingWriter) WriteHeader(status int) {
	if policy := w.Header().Get("Content-Security-Policy"); policy != "" {
		w.Header().Set("Content-Security-Policy", policy+"; report-uri "+w.to)
	}
	w.Header().Del("Content-Length") // the test may append to the answer
	w.ResponseWriter.WriteHeader(status)
}

// browse opens address in a headless Chromium, as an unprivileged user when the
// test is root (the sandbox needs that), and returns the page it built and what
// it wrote to its log. With SCREENSHOT_DIR set, it leaves a picture there.
func browse(t *testing.T, address string) (page, console string) {
	t.Helper()
	home, err := os.MkdirTemp("", "explorer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	common := []string{
		"--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--enable-logging=stderr", "--user-data-dir=" + filepath.Join(home, "data"),
		"--window-size=1200,1100", "--virtual-time-budget=20000",
	}
	page, console = chromium(t, home, append(common, "--dump-dom", address))
	if dir := os.Getenv("SCREENSHOT_DIR"); dir != "" {
		picture := filepath.Join(home, "page.png")
		_, _ = chromium(t, home, append(common, "--screenshot="+picture, address))
		if err := os.Rename(picture, filepath.Join(dir, "docs.png")); err != nil {
			t.Error(err)
		}
	}
	return page, console
}

func chromium(t *testing.T, home string, args []string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), chromiumBinary(t), args...)
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, &log)
	}
	return out.String(), log.String()
}

// chromiumBinary prefers the real binary to the distribution's wrapper script.
func chromiumBinary(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/lib/chromium/chromium", "/usr/bin/chromium", "/usr/bin/google-chrome"} {
		if _, err := os.Stat(path); err == nil {
			return path
		} else if !os.IsNotExist(err) && !os.IsPermission(err) {
			t.Fatal(err)
		}
	}
	t.Fatal(fs.ErrNotExist, "no Chromium on this machine")
	return ""
}
