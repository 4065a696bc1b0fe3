package apikey

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/clock"
)

// useInterval is how often a key's last use is written at most.
const useInterval = time.Minute

// useWriter writes when keys were used: those of many requests in one statement, which
// none of them waits for, and none fails with.
type useWriter struct {
	db     *sqlx.DB
	clock  clock.Clock
	logger *slog.Logger
	writes *combine.Combiner[struct{}, []uuid.UUID, struct{}]

	mu   sync.Mutex
	last map[uuid.UUID]time.Time // when each was to be written
}

func newUseWriter(db *sqlx.DB, clock clock.Clock, logger *slog.Logger) *useWriter {
	u := &useWriter{db: db, clock: clock, logger: logger}
	u.writes = combine.New(u.write, combine.Options[struct{}, []uuid.UUID]{})
	return u
}

// add takes down that the keys are used now, where that is due.
func (u *useWriter) add(keys []uuid.UUID) {
	if due := u.due(keys); len(due) > 0 {
		u.writes.Post(struct{}{}, due)
	}
}

// due are those whose last use was not written lately.
func (u *useWriter) due(keys []uuid.UUID) []uuid.UUID {
	now := u.clock.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil || len(u.last)+len(keys) > maxCachedKeys {
		u.last = map[uuid.UUID]time.Time{}
	}
	var due []uuid.UUID
	for _, key := range keys {
		if last, ok := u.last[key]; !ok || now.Sub(last) >= useInterval {
			u.last[key] = now
			due = append(due, key)
		}
	}
	return due
}

// write writes the time. That of another replica, which did so lately or is just
// doing so, is as good.
func (u *useWriter) write(ctx context.Context, _ struct{}, batch [][]uuid.UUID) ([]struct{}, error) {
	ids, now := slices.Concat(batch...), u.clock.Now()
	_, err := u.db.ExecContext(ctx, `
		UPDATE api_keys SET last_used_at = $2
		WHERE id IN (SELECT id FROM api_keys
		             WHERE id = ANY ($1) AND (last_used_at IS NULL OR last_used_at <= $3)
		             FOR NO KEY UPDATE SKIP LOCKED)`, pq.Array(ids), now, now.Add(-useInterval))
	if err != nil {
		u.logger.ErrorContext(ctx, "write the last use of keys", "keys", len(ids), "error", err)
	}
	return make([]struct{}, len(batch)), nil
}
