package embedded_test

import (
	"bufio"
	"context"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/embedded"
)

const helperVariable = "SVC_TEST_EMBEDDED_DIR"

// TestMain also runs helper processes: with the variable set it starts a server, prints
// the postmaster's process ID and waits to be killed.
func TestMain(m *testing.M) {
	dir := os.Getenv(helperVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := embedded.Start(context.Background(), embedded.Options{DataDir: dir})
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString(strconv.Itoa(s.Pid()) + "\n")
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
	}
}

// helper starts the test binary as a process with a server, and returns it and the
// postmaster's process ID.
func helper(t *testing.T, dir string) (*osexec.Cmd, int) {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the helper printed nothing: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

func TestParentKill_StopsServer(t *testing.T) {
	dir := dataDir(t)
	parent, _ := helper(t, dir)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	began := time.Now()
	awaitExit(t, dir, 2*time.Second)
	t.Logf("nothing left after %v", time.Since(began).Round(time.Millisecond))
	exec(t, open(t, start(t, dir).DSN()), `SELECT 1`)
}

func TestStart_StopsLeftoverServer(t *testing.T) {
	dir := dataDir(t)
	parent, postmaster := helper(t, dir)
	// A stopped postmaster does not handle the parent-death signal, so it outlives its
	// parent.
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	if left := processes(t, dir); len(left) == 0 {
		t.Fatal("no process was left over, so the test cannot check anything")
	}
	resume := time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(postmaster, syscall.SIGCONT) })
	defer resume.Stop()
	s := start(t, dir)
	if s.Pid() == postmaster {
		t.Error("the leftover was not replaced")
	}
	exec(t, open(t, s.DSN()), `SELECT 1`)
}

func TestServerKill_StopsOrphanedBackend(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	db := open(t, s.DSN())
	running := make(chan struct{})
	go func() { // a busy backend that does not check whether the postmaster has ended
		conn, err := db.Conn(t.Context())
		close(running)
		if err != nil {
			return
		}
		defer conn.Close()
		conn.ExecContext(t.Context(), `SET statement_timeout = 0; SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b`)
	}()
	<-running
	for !busy(t, s) {
		time.Sleep(5 * time.Millisecond)
	}
	orphans := processes(t, dir)
	killAndAwaitRestart(t, s, db)
	for _, pid := range processes(t, dir) {
		if slices.Contains(orphans, pid) {
			t.Errorf("process %s of the killed server is left", pid)
		}
	}
}

func busy(t *testing.T, s *embedded.Server) (is bool) {
	t.Helper()
	db := open(t, s.AdminDSN())
	defer db.Close()
	if err := db.Get(&is, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series(1, 100000)%' AND pid <> pg_backend_pid())`); err != nil {
		t.Fatal(err)
	}
	return is
}
