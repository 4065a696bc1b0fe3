package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// serveDownload serves a page with a link to a download of this size and a file input.
func serveDownload(t *testing.T, size int64) string {
	t.Helper()
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/report.bin" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, `<!doctype html><a href="/report.bin" download>report</a><input type="file">`)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		for left := size; left > 0; left -= int64(len(block)) {
			if _, err := w.Write(block[:min(left, int64(len(block)))]); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// TestFiles_ReachClients saves a download and uploads it again with each client, in a
// process that cannot see the files of the worker. The puppeteer run downloads more
// files in a row than the limit of the launch allows together, and more than ten, which Chromium limits.
func TestFiles_ReachClients(t *testing.T) {
	t.Parallel()
	size, limit, rounds := int64(2_000_000), "LAUNCH_FILES_MB=24", 15
	if testenv.Full() {
		size, limit, rounds = 90_000_000, "LAUNCH_FILES_MB=300", 40
	}
	c := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t))
	a := c.signUp(t)
	env := testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, limit)}
	profile := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t)})
	page := serveDownload(t, size)
	clients := []string{"playwright", "puppeteer", "selenium"}
	if testenv.Full() {
		installClients(t)
		clients = append(clients, "python playwright", "python selenium", "python selenium_managed")
	}
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			name, python := strings.CutPrefix(client, "python ")
			command := []string{"node", "clients/files.mjs"}
			if python {
				command = []string{filepath.Join(root, "bin", "clients", "bin", "python"), "clients/full/files.py", name}
			}
			given := map[string]any{"client": name, "worker": env.worker.url, "key": env.worker.key, "url": page, "profile": profile}
			if strings.HasPrefix(name, "selenium") {
				given["endpoint"] = strings.Replace(env.worker.url, "://", "://user:"+env.worker.key+"@", 1) + "/wd/hub"
			} else {
				session := env.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &profile})
				defer env.worker.killSession(t, session.Id)
				given["endpoint"] = *session.WebSocketDebuggerUrl
			}
			if client == "puppeteer" {
				given["rounds"] = rounds
			}
			var got struct {
				Saved, Uploaded int64
				Same            bool
			}
			env.worker.runHidden(t, command, given, &got)
			if got.Saved != size || got.Uploaded != size || !got.Same {
				t.Errorf("got %+v, want %d bytes", got, size)
			}
		})
	}
}

// TestFiles_PlaywrightReportsUnreadableDirectory chooses a directory that the browser cannot
// read. Playwright repeats such a call until its timeout, unless an evaluation fails.
func TestFiles_PlaywrightReportsUnreadableDirectory(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	session := env.worker.launch(t, env.newLaunchRequest(t, true))
	var got struct {
		Directory string
		Errors    []string
		Sum       int
		Uploaded  string
	}
	runScript(t, "directory", map[string]any{"endpoint": *session.WebSocketDebuggerUrl}, &got)
	for _, text := range got.Errors {
		if !strings.Contains(text, fmt.Sprintf("The browser has no file %q", got.Directory)) {
			t.Errorf("got the error %q", text)
		}
	}
	if len(got.Errors) != 3 || got.Sum != 42 || got.Uploaded != "content" {
		t.Errorf("got %+v", got)
	}
}

// TestFiles_LargeDownloadNeedsNoMemory follows a large download to its end and compares
// the worker's memory. The quick run has a smaller file.
func TestFiles_LargeDownloadNeedsNoMemory(t *testing.T) {
	t.Parallel()
	size := int64(100_000_000)
	if testenv.Full() {
		size = 1_100_000_000
	}
	env := newTestEnv(t)
	page := serveDownload(t, size)
	s := env.worker.launch(t, env.newLaunchRequest(t, true))
	before := env.worker.pss(t)
	env.worker.openTab(t, s, page+"/report.bin")
	files := env.worker.url + "/browsers/" + s.LaunchId.String() + "/files/latest"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", env.worker.key)
	var answer *http.Response
	for answer == nil || answer.StatusCode == http.StatusNotFound { // until the download begins
		if answer, err = http.DefaultClient.Do(request); err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
	}
	got, peak, start := int64(0), before, time.Now()
	for err == nil {
		var n int64
		n, err = io.CopyN(io.Discard, answer.Body, 64<<20)
		got += n
		peak = max(peak, env.worker.pss(t))
	}
	if !errors.Is(err, io.EOF) || got != size {
		t.Fatalf("got %d of %d bytes: %v", got, size, err)
	}
	t.Logf("%d MB in %s; the worker had %d KB before and at most %d KB meanwhile", size/1_000_000, time.Since(start).Round(time.Millisecond), before, peak)
	if grown := peak - before; grown > 40_000 {
		t.Errorf("the worker has grown by %d KB", grown)
	}
}

// pss returns the proportional memory of the worker's process in KB.
func (w *worker) pss(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", w.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "Pss:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no Pss in %s", text)
	return 0
}

// openTab opens a tab at a URL.
func (w *worker) openTab(t *testing.T, s workerapi.BrowserSession, address string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.url+"/browsers/"+s.LaunchId.String()+"/json/new?"+url.QueryEscape(address), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", w.key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("open a tab: %v %v", answer, err)
	}
	_ = answer.Body.Close()
}

// runHidden runs a client where an empty file system hides the worker's data.
func (w *worker) runHidden(t *testing.T, client []string, given, got any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*clientTimeout)
	defer cancel()
	hide := []string{"--mount", "sh", "-c", `mount -t tmpfs none "$0" && exec "$@"`, w.dir}
	if os.Geteuid() != 0 {
		hide = append([]string{"--map-root-user"}, hide...)
	}
	cmd := exec.CommandContext(ctx, "unshare", append(hide, client...)...)
	if err := runClient(cmd, given, got); err != nil {
		t.Fatal(err)
	}
}
