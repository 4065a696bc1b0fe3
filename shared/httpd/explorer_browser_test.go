package httpd_test

import (
	"bytes"
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

// TestExplorer_WorksInBrowser opens the page in Chromium, at the root and behind a
// prefix. A content security policy reports every violation to the test.
func TestExplorer_WorksInBrowser(t *testing.T) {
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
				reporting := &reportingWriter{ResponseWriter: w, target: prefix + "/violation"}
				http.StripPrefix(prefix, e).ServeHTTP(reporting, r)
			}))
			defer server.Close()

			page, console := dumpPage(t, server.URL+prefix+"/docs#/plans/listPlans")
			for _, want := range []string{"<title>Test surface</title>", "List the plans", "/v1/plans", server.URL + prefix + "</code>", "The plans", "free", "answered by the server", `aria-label="limit"`, `tabindex="0"`} {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not contain %q", want)
				}
			}
			if strings.Contains(page, `class="nostyle" href`) {
				t.Error("the button of an operation has a link inside")
			}
			if strings.Contains(console, "CONSOLE") {
				t.Errorf("console output:\n%s", console)
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
				t.Errorf("failed requests:\n%s", book)
			}
		})
	}
}

// pressExecute runs the displayed operation once Swagger UI has rendered it, and
// displays the answer.
const pressExecute = `
const waiting = setInterval(() => {
  const execute = document.querySelector("button.execute");
  if (!execute || !document.querySelector(".responses-table .example")) return;
  clearInterval(waiting);
  setTimeout(() => execute.click(), 1000);
}, 100);`

// reportingWriter makes the browser report violations of the page's policy.
type reportingWriter struct {
	http.ResponseWriter
	target string
}

func (w *reportingWriter) WriteHeader(status int) {
	if policy := w.Header().Get("Content-Security-Policy"); policy != "" {
		w.Header().Set("Content-Security-Policy", policy+"; report-uri "+w.target)
	}
	w.Header().Del("Content-Length") // the test may append to the answer
	w.ResponseWriter.WriteHeader(status)
}

// dumpPage opens the address in headless Chromium and returns the resulting page and
// the browser's log. If the test runs as root, Chromium runs as another user, which its
// sandbox requires. With SCREENSHOT_DIR set, dumpPage saves a screenshot there.
func dumpPage(t *testing.T, address string) (page, console string) {
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
