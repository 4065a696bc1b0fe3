package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/httpd"
)

// The minimum time between two database checks, and the timeout of one.
const (
	databasePeriod  = time.Second
	databaseTimeout = 2 * time.Second
)

// newReadiness returns the readiness check of this replica: whether the database
// accepts writes.
func newReadiness(pools pools, logger *slog.Logger) *httpd.Readiness {
	return httpd.NewReadiness(logger, httpd.CachedCheck(databasePeriod, databaseTimeout, func(ctx context.Context) []httpd.Reason {
		err := pg.Writable(ctx, pools.launches)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, pg.ErrReadOnly):
			return []httpd.Reason{{Check: "database", Code: "database_read_only", Message: "The database does not accept writes."}}
		default:
			logger.WarnContext(ctx, "database did not answer the readiness check", "error", err)
			return []httpd.Reason{{Check: "database", Code: "database_unreachable", Message: "The database does not answer."}}
		}
	}))
}
