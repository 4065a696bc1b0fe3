package app

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// TestDatabaseHealth_SharesOneCheck calls /health and /readyz many times while
// launches hold all connections of the pool.
func TestDatabaseHealth_SharesOneCheck(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	pool.SetMaxOpenConns(1)
	health := newDatabaseHealth(pool, slog.New(slog.DiscardHandler))
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
