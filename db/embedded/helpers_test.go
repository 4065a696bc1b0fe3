package embedded_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

// dataDir returns a directory that the server's user can access, unlike the directories
// of t.TempDir.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	began := time.Now()
	s, err := embedded.Start(t.Context(), embedded.Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start: %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

func stop(t *testing.T, s *embedded.Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	db, err := pg.Open(t.Context(), dsn, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sqlx.DB, query string) {
	t.Helper()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func setting(t *testing.T, db *sqlx.DB, name string) string {
	t.Helper()
	var value string
	if err := db.Get(&value, `SELECT current_setting($1)`, name); err != nil {
		t.Fatal(err)
	}
	return value
}

func count(t *testing.T, db *sqlx.DB) (n int) {
	t.Helper()
	if err := db.Get(&n, `SELECT count(*) FROM kept`); err != nil {
		t.Fatal(err)
	}
	return n
}

// kill kills the postmaster.
func kill(t *testing.T, s *embedded.Server) {
	t.Helper()
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// killAndAwaitRestart kills the postmaster and waits until the pool works again.
func killAndAwaitRestart(t *testing.T, s *embedded.Server, db *sqlx.DB) {
	t.Helper()
	killed := s.Pid()
	kill(t, s)
	testenv.Eventually(t, "the server is restarted", func() bool {
		_, err := db.Exec(`SELECT 1`)
		if err != nil && !pg.IsUnavailable(err) {
			t.Fatalf("during the restart: %v", err)
		}
		return err == nil && s.Pid() != killed
	})
}

// awaitExit waits until no process runs on the data directory.
func awaitExit(t *testing.T, dir string, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		left := processes(t, dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running after %v: %v", within, left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// processes returns the processes with the directory's name in their command line.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	name, err := os.ReadFile(filepath.Join(dir, "name"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), strings.TrimSpace(string(name))) {
			found = append(found, filepath.Base(filepath.Dir(path)))
		}
	}
	return found
}
