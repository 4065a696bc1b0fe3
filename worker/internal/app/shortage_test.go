package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// limitedWorker is a worker in a process of its own, on a machine with too few resources.
type limitedWorker struct {
	url    string
	client http.Client
	dir    string // DATA_DIR, as this process sees it
}

const limitedKey = "wrk-key-of-this-test"

// startLimited starts a worker after a shell command, in a mount namespace of its own, and waits
// until it is ready. The shell command gets DATA_DIR as $1.
func startLimited(t *testing.T, prepare string) *limitedWorker {
	t.Helper()
	log, port, dir := &testenv.Log{}, testenv.FreePort(t), testenv.PublicTempDir(t)
	command := exec.Command("sh", "-c", prepare+` && shift && exec "$@"`, "sh", dir, os.Args[0], "serve")
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	startWorker(t, log, command, "SVC_CLOUD_URL="+cloudtest.New(t).URL, fmt.Sprintf("PORT=%d", port), "HOST=127.0.0.1", "WARM_POOL=0", "API_KEY="+limitedKey,
		"AUTO_ENGINE=true", "DATA_DIR="+dir)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	r := &limitedWorker{
		url: fmt.Sprintf("http://127.0.0.1:%d", port), client: http.Client{Timeout: 30 * time.Second},
		dir: fmt.Sprintf("/proc/%d/root%s", command.Process.Pid, dir),
	}
	r.awaitReady(t)
	return r
}

func (r *limitedWorker) awaitReady(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "the worker is ready", func() bool { status, _ := r.call("GET", "/readyz", ""); return status == http.StatusOK })
}

// launch launches a browser and returns its session, or the answer if it is another one.
func (r *limitedWorker) launch(t *testing.T) (id string, status int, text string) {
	t.Helper()
	status, text = r.call("POST", "/sessions/profile", `{"spec":{}}`)
	if status != http.StatusCreated {
		return "", status, text
	}
	var started workerapi.BrowserSessionResponse
	if err := json.Unmarshal([]byte(text), &started); err != nil {
		t.Fatal(err)
	}
	return started.Data.Id.String(), status, text
}

func (r *limitedWorker) end(t *testing.T, session string) {
	t.Helper()
	if status, text := r.call("DELETE", "/sessions/"+session, ""); status != http.StatusOK {
		t.Errorf("end: %d %s", status, text)
	}
}

// call sends a request on a connection of its own. The status is 0 if there is no answer.
func (r *limitedWorker) call(method, path, body string) (status int, text string) {
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Close = true
	request.Header.Set("X-API-Key", limitedKey)
	request.Header.Set("Content-Type", "application/json")
	answer, err := r.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	content, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content)
}

// TestServe_FewDescriptors runs a worker that may open 320 files. It raises its soft limit.
func TestServe_FewDescriptors(t *testing.T) {
	r := startLimited(t, `ulimit -Sn 64 && ulimit -Hn 320`)
	for range 400 {
		idle, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
	}
	if status, text := r.call("GET", "/health", ""); status != http.StatusOK {
		t.Errorf("/health with idle connections: %d %s", status, text)
	}
	var sessions []string
	for {
		id, status, text := r.launch(t)
		if id == "" {
			if status != http.StatusServiceUnavailable || !strings.Contains(text, "file descriptors") || len(sessions) == 0 {
				t.Errorf("launch %d: %d %s", len(sessions)+1, status, text)
			}
			break
		}
		sessions = append(sessions, id)
	}
	testenv.Eventually(t, "the worker is not ready", func() bool {
		status, text := r.call("GET", "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(text, `"reason":"descriptors"`)
	})
	for _, id := range sessions {
		r.end(t, id)
	}
	r.awaitReady(t)
}

// TestServe_FullDisk runs a worker on a disk without inodes: free space is no limit there.
func TestServe_FullDisk(t *testing.T) {
	r := startLimited(t, `mount --make-rprivate / && mount -t tmpfs -o size=1g,nr_inodes=2000,mode=755 tmpfs "$1"`)
	id, status, text := r.launch(t)
	if id == "" {
		t.Fatalf("launch on an empty disk: %d %s", status, text)
	}
	r.end(t, id)
	files, err := fillInodes(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, status, text := r.launch(t); status != http.StatusServiceUnavailable || !strings.Contains(text, "disk of this machine is full") {
		t.Errorf("launch on a full disk: %d %s", status, text)
	}
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if id, status, text = r.launch(t); id == "" {
		t.Fatalf("launch on an empty disk: %d %s", status, text)
	}
	r.end(t, id)
}

// fillInodes creates empty files until the disk has no more inodes.
func fillInodes(dir string) (files []string, err error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf("fill-%d", len(files)))
		file, err := os.Create(name)
		if errors.Is(err, syscall.ENOSPC) {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		_ = file.Close()
		files = append(files, name)
	}
}
