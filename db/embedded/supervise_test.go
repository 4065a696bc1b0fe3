package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServerKill_RestartsWithSameAddress(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	db := open(t, s.DSN())
	exec(t, db, `CREATE TABLE kept (id int); INSERT INTO kept SELECT generate_series(1, 1000)`)
	for range 2 {
		killAndAwaitRestart(t, s, db)
		if n := count(t, db); n != 1000 {
			t.Errorf("%d rows after the recovery, want 1000", n)
		}
	}
	select {
	case <-s.Done():
		t.Errorf("the server is not supervised any more: %v", s.Err())
	default:
	}
	stop(t, s)
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	awaitExit(t, dir, 0)
}

// breakCluster removes a file without which PostgreSQL does not start.
func breakCluster(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "cluster", "global", "pg_control")); err != nil {
		t.Fatal(err)
	}
}

func TestServerKill_FailsAfterRestarts(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	breakCluster(t, dir)
	kill(t, s)
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "failed 7 times in a row") || !strings.Contains(err.Error(), "pg_control") {
		t.Errorf("Err = %v, want the number of failures and the server's message", err)
	}
	stop(t, s)
	awaitExit(t, dir, 0)
}

func TestStop_EndsRestarts(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	breakCluster(t, dir)
	kill(t, s)
	stop(t, s)
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	awaitExit(t, dir, 0)
}
