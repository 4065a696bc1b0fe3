package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// requestTimeout bounds a request: what waits for a connection to a database that
// does not answer gives up then. A statement that is under way ends by its own
// timeout, a few seconds later at most (pg.Options.Statement).
const requestTimeout = 30 * time.Second

// mapOutages answers 503 with Retry-After where a request failed because of
// what the database can't do at the moment (specification 7.1). Errors that have
// a kind already keep it. Requests whose answer does not stream end after limit.
func mapOutages(limit time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			return outageFault(withDeadline(c, limit, next))
		}
	}
}

// mapHandlerOutages does the same for what fails in a handler, before the answer is
// kept for repeated requests.
func mapHandlerOutages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error { return outageFault(next(c)) }
}

// withDeadline calls next with a deadline.
func withDeadline(c echo.Context, limit time.Duration, next echo.HandlerFunc) error {
	if isStreaming(c) {
		return next(c)
	}
	r := c.Request()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer func() {
		cancel()
		c.SetRequest(r) // what comes after tells a client that left by the context
	}()
	c.SetRequest(r.WithContext(ctx))
	return next(c)
}

// outageFault returns err as a fault if the database can't serve now, else err.
func outageFault(err error) error {
	if err == nil || fault.From(err).Kind != fault.Internal {
		return err
	}
	outage, ok := pg.OutageOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outage = pg.TimedOut
	case !ok:
		return err
	}
	f := fault.Wrap(err, fault.Unavailable, outage.Message)
	f.RetryAfter = outage.RetryAfter
	return f
}

// isStreaming reports whether the answer may take as long as the client reads it.
func isStreaming(c echo.Context) bool { return strings.HasSuffix(c.Path(), "/download") }
