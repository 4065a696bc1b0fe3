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

// useInterval is the minimum interval between writes of a key's last use.
const useInterval = time.Minute

// useWriter writes the last use of keys in batches. Requests neither wait for the
// write nor fail with it.
type useWriter struct {
	db     *sqlx.DB
	clock  clock.Clock
	logger *slog.Logger
	writes *combine.Combiner[struct{}, []uuid.UUID, struct{}]

	mu   sync.Mutex
	last map[uuid.UUID]time.Time // when the last use was queued
}

func newUseWriter(db *sqlx.DB, clock clock.Clock, logger *slog.Logger) *useWriter {
	u := &useWriter{db: db, clock: clock, logger: logger}
	u.writes = combine.New(u.write, combine.Options[struct{}, []uuid.UUID]{})
	return u
}

// add records the use of keys whose last write is old enough.
func (u *useWriter) add(keys []uuid.UUID) {
	if due := u.due(keys); len(due) > 0 {
		u.writes.Post(struct{}{}, due)
	}
}

// due returns the keys whose last use was not written within useInterval.
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

// write writes the time of use. It skips locked rows, because another replica is
// writing a similar time.
func (u *useWriter) write(ctx context.Context, _ struct{}, batch [][]uuid.UUID) ([]struct{}, error) {
	ids, now := slices.Concat(batch...), u.clock.Now()
	_, err := u.db.ExecContext(ctx, `
		UPDATE api_keys SET last_used_at = $2
		WHERE id IN (SELECT id FROM api_keys
		             WHERE id = ANY ($1) AND (last_used_at IS NULL OR last_used_at <= $3)
		             FOR NO KEY UPDATE SKIP LOCKED)`, pq.Array(ids), now, now.Add(-useInterval))
	if err != nil {
		u.logger.ErrorContext(ctx, "failed to write last use of keys", "keys", len(ids), "error", err)
	}
	return make([]struct{}, len(batch)), nil
}
