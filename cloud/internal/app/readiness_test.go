package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

// TestDatabaseHealth_SharesOneCheck calls /health and /readyz many times while
// launches hold all connections of the pool.
func TestDatabaseHealth_SharesOneCheck(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	pool.SetMaxOpenConns(1)
	health := newDatabaseHealth(pool, slog.New(slog.DiscardHandler))
	defer health.Close()
	ready := newReadiness(health, slog.New(slog.DiscardHandler))
	if err := health.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	launch, err := pool.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer launch.Close()
	ctx, cancel := context.WithTimeout(t.Context(), databasePeriod/2)
	defer cancel()
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if err := health.Ping(ctx); err != nil {
				t.Errorf("/health: %v", err)
			}
			if err := ready.Err(ctx); err != nil {
				t.Errorf("/readyz: %v", err)
			}
		})
	}
	callers.Wait()
	if waited := pool.Stats().WaitCount; waited != 0 {
		t.Errorf("%d checks waited for a connection, want 0", waited)
	}
	time.Sleep(databasePeriod)
	if err := health.Ping(t.Context()); err == nil {
		t.Error("a result older than the period was used")
	}
}

// TestReadiness_AnswersWhileDatabaseHangs stops the processes of the server that have the cloud's
// connections. The client gives up long before the connections do.
func TestReadiness_AnswersWhileDatabaseHangs(t *testing.T) {
	port := testenv.FreePort(t)
	config := Config{Host: "127.0.0.1", Port: port, DatabaseURL: dbtest.NewDSN(t), DataDir: t.TempDir()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, port, done)
	resume := hang(t, config.DatabaseURL)
	time.Sleep(databasePeriod) // the result of the last check is shared for that long
	client := http.Client{Timeout: 15 * time.Second}
	for _, path := range []string{"/readyz", "/health", "/readyz"} {
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || path == "/readyz" && !strings.Contains(string(body), `"reason":"database_unreachable"`) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, body)
		}
	}
	resume()
	awaitHealth(t, port, done)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// hang stops the processes of the server that serve a database until resume is called.
func hang(t *testing.T, dsn string) (resume func()) {
	t.Helper()
	owner := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	var backends []int
	if err := owner.Select(&backends, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	resume = sync.OnceFunc(func() {
		for _, pid := range backends {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(resume)
	for _, pid := range backends {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	return resume
}
