package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/httpd"
)

// How often probes ask the database at most, and for how long.
const (
	databasePeriod  = time.Second
	databaseTimeout = 2 * time.Second
)

// newReadiness is whether this replica takes requests.
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
