package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// requestTimeout bounds a request, including its wait for a database connection.
// A running statement ends by its own timeout, at most a few seconds later
// (pg.Options.Statement).
const requestTimeout = 30 * time.Second

// mapOutages answers 503 with Retry-After when a request fails because the
// database is temporarily unable to serve it (specification 7.1). Errors that
// already have a kind keep it. Requests whose answer is not streamed end after
// limit.
func mapOutages(limit time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			return outageFault(withDeadline(c, limit, next))
		}
	}
}

// mapHandlerOutages maps errors of handlers like mapOutages, before the answer is
// saved for repetitions of the request.
func mapHandlerOutages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error { return outageFault(next(c)) }
}

// withDeadline calls next with a deadline, except for streaming answers and for requests
// that can wait.
func withDeadline(c echo.Context, limit time.Duration, next echo.HandlerFunc) error {
	if isStreaming(c) || c.Path() == waitingPath {
		return next(c)
	}
	r := c.Request()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer func() {
		cancel()
		c.SetRequest(r) // later middleware detects a disconnected client by the context
	}()
	c.SetRequest(r.WithContext(ctx))
	return next(c)
}

// outageFault returns err as an Unavailable fault if it is caused by a database
// outage; otherwise it returns err.
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

// isStreaming reports whether the answer is streamed, and so may take as long as
// the client needs.
func isStreaming(c echo.Context) bool {
	return strings.HasSuffix(c.Path(), "/download") || c.Path() == "/v1/events"
}

// waitingPath is the operation whose requests can wait.
const waitingPath = "/v1/license/authorize"

// allowWaiting sets the deadline of requests that can wait: requestTimeout after the end
// of the wait.
func allowWaiting(next cloudapi.StrictHandlerFunc, _ string) cloudapi.StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		launch, ok := request.(cloudapi.AuthorizeLaunchRequestObject)
		if !ok {
			return next(c, request)
		}
		limit := requestTimeout
		if wait := launch.Body.WaitSeconds; wait != nil && *wait > 0 {
			limit += time.Duration(*wait) * time.Second
		}
		r := c.Request()
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer func() {
			cancel()
			c.SetRequest(r)
		}()
		c.SetRequest(r.WithContext(ctx))
		return next(c, request)
	}
}
