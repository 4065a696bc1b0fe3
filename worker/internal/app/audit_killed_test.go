package app

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestAudit_KilledWorkerLeavesNoSeal kills a worker, starts another one in its directory, and
// runs svc-worker audit verify on both logs.
func TestAudit_KilledWorkerLeavesNoSeal(t *testing.T) {
	dir, fake := testenv.PublicTempDir(t), cloudtest.New(t)
	start := func() (*limitedWorker, *exec.Cmd) {
		port := testenv.FreePort(t)
		command := runWorker(t, t.Output(), []string{"serve"}, "SVC_CLOUD_URL="+fake.URL, fmt.Sprintf("PORT=%d", port), "HOST=127.0.0.1", "WARM_POOL=0", "API_KEY="+limitedKey,
			"AUTO_ENGINE=true", "DATA_DIR="+dir, "AUDIT=actions")
		r := &limitedWorker{url: fmt.Sprintf("http://127.0.0.1:%d", port), client: http.Client{Timeout: 30 * time.Second}}
		r.awaitReady(t)
		return r, command
	}
	verify := func(session, organizationKey string) (status int, text string) {
		var out testenv.Log
		command := exec.Command(os.Args[0], "audit", "verify", filepath.Join(dir, "audit", session+".jsonl"))
		command.Env = []string{workerVariable + "=1", "SVC_KEY=" + organizationKey}
		command.Stdout, command.Stderr = &out, &out
		_ = command.Run() // the status is checked
		return command.ProcessState.ExitCode(), out.String()
	}
	r, command := start()
	killed, status, text := r.launch(t)
	if killed == "" {
		t.Fatalf("got %d %s", status, text)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	r, _ = start()
	complete, _, _ := r.launch(t)
	r.end(t, complete)
	for _, tc := range []struct {
		session, key string
		status       int
		says         []string
	}{
		{complete, cloudtest.Key, 0, []string{"session  " + complete, "sealed   complete", "1 end"}},
		{killed, cloudtest.Key, 1, []string{"session  " + killed, "sealed   no", "the log is not sealed"}},
		{complete, "svc_another", 1, []string{"of another organization key"}},
		{complete, "", 1, []string{"SVC_KEY is not set"}},
		{"none", cloudtest.Key, 1, []string{"no such file"}},
	} {
		status, text := verify(tc.session, tc.key)
		for _, want := range tc.says {
			if status != tc.status || !strings.Contains(text, want) {
				t.Errorf("got %d, want %d with %q:\n%s", status, tc.status, want, text)
			}
		}
	}
}
