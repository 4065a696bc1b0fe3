package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	killedOpen    = 8 // sessions of the client that is killed
	killedWaiting = 2 // sessions that it waits for
)

// TestWebDriver_KilledClientLeavesNothing kills clients of Selenium Grid that have open
// sessions, in commands and between them, and wait for more.
func TestWebDriver_KilledClientLeavesNothing(t *testing.T) {
	t.Parallel()
	installClients(t, "grid")
	clients := map[string][]string{"pytest": pytestCommand("test_endless.py")}
	if testenv.Full() {
		installClients(t)
		clients["java"] = javaCommand("endless")
	}
	for name, command := range clients {
		t.Run(name, func(t *testing.T) { killClient(t, command) })
	}
}

func killClient(t *testing.T, command []string) {
	dsn := dbtest.NewDSN(t)
	database := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	c := startCloud(t, "DATABASE_URL="+dsn)
	a := c.signUp(t)
	a.setLimit(t, database, killedOpen)
	env := testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, completeBrowsers, "IDLE_TIMEOUT=5s")}
	var pages atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start.html" {
			pages.Add(1)
		}
	}))
	t.Cleanup(site.Close)
	client := env.startClient(t, command, site.URL)
	eventually(t, suiteLimit/5, "the sessions are open or wait", func() error {
		opened, waiting := pages.Load(), len(readPlaces(t, database, a.org))
		if client.hasExited() {
			t.Fatalf("the client ended: %s", tail(strings.ReplaceAll(client.logText(), env.worker.key, "KEY")))
		}
		if opened != killedOpen || waiting != killedWaiting {
			return fmt.Errorf("%d sessions are open, %d wait", opened, waiting)
		}
		return nil
	})
	before := browserProcesses(env.worker.launches)
	_ = syscall.Kill(-client.cmd.Process.Pid, syscall.SIGKILL) // with the processes of pytest-xdist
	<-client.done
	began := time.Now()
	env.assertForgotten(t, database)
	assertGone(t, time.Minute, before, env.worker.launches)
	assertNoDirectories(t, env.worker.launches)
	t.Logf("nothing is left %v after the kill", time.Since(began).Round(100*time.Millisecond))
}

// startClient starts a client with more sessions than slots.
func (s testEnv) startClient(t *testing.T, command []string, site string) *program {
	t.Helper()
	input, err := json.Marshal(map[string]any{
		"endpoint": "http://user:" + s.worker.key + "@" + s.worker.address + "/wd/hub",
		"site":     site, "parallel": killedOpen + killedWaiting,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	client := startCommand(t, cmd, filepath.Join(s.worker.dir, "client.log"), "TMPDIR="+t.TempDir())
	t.Cleanup(func() { _ = syscall.Kill(-client.cmd.Process.Pid, syscall.SIGKILL) })
	return client
}

// assertForgotten waits until the queue is empty, then until all sessions have ended
// because they were idle.
func (s testEnv) assertForgotten(t *testing.T, database *sqlx.DB) {
	t.Helper()
	eventually(t, 10*time.Second, "no launch waits", func() error {
		if waiting := readPlaces(t, database, s.org); len(waiting) > 0 {
			return fmt.Errorf("%d wait", len(waiting))
		}
		return nil
	})
	s.waitForSlots(t, 0, time.Minute)
	eventually(t, 10*time.Second, "the ends are in the feed", func() error {
		answer, err := s.dashboard.ListSessionsWithResponse(t.Context(), &cloudapi.ListSessionsParams{})
		requireAnswer(t, err, answer, http.StatusOK)
		var problems []error
		for _, session := range answer.JSON200.Data.Items {
			if session.Name == nil || !strings.HasPrefix(*session.Name, "test_endless") || session.EndReason == nil ||
				string(*session.EndReason) != string(sharedapi.EndReasonIdle) {
				problems = append(problems, fmt.Errorf("%+v", session))
			}
		}
		if found := len(answer.JSON200.Data.Items); found != killedOpen {
			problems = append(problems, fmt.Errorf("%d sessions, want %d", found, killedOpen))
		}
		return errors.Join(problems...)
	})
}
