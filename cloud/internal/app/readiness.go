package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/httpd"
)

// The minimum time between two database checks, and the timeout of one.
const (
	databasePeriod  = time.Second
	databaseTimeout = 2 * time.Second
)

// databaseHealth reports whether the database answers and accepts writes. GET
// /health and /readyz share the result, because they need no authentication and
// the connections of the pool are for launches. A query to a server that hangs
// outlasts its context; the result is then context.DeadlineExceeded.
type databaseHealth struct{ *httpd.Cache[error] }

// newDatabaseHealth returns a databaseHealth. Call Close to end it.
func newDatabaseHealth(pool *sqlx.DB, logger *slog.Logger) databaseHealth {
	return databaseHealth{httpd.NewCache(databasePeriod, databaseTimeout, context.DeadlineExceeded, func(ctx context.Context) error {
		err := pg.Writable(ctx, pool)
		if err != nil && !errors.Is(err, pg.ErrReadOnly) {
			logger.WarnContext(ctx, "database did not answer the readiness check", "error", err)
		}
		return err
	})}
}

// Ping returns Unavailable during an outage of the database.
func (h databaseHealth) Ping(ctx context.Context) error { return outageFault(h.Get(ctx)) }

// newReadiness returns the readiness check of this replica: whether the database
// accepts writes.
func newReadiness(database databaseHealth, logger *slog.Logger) *httpd.Readiness {
	return httpd.NewReadiness(logger, func(ctx context.Context) []httpd.Reason {
		err := database.Get(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, pg.ErrReadOnly):
			return []httpd.Reason{{Check: "database", Code: "database_read_only", Message: "The database does not accept writes."}}
		default:
			return []httpd.Reason{{Check: "database", Code: "database_unreachable", Message: "The database does not answer."}}
		}
	})
}
