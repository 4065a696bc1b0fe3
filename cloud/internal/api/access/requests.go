package access

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
)

// The headers with the state of apiRpmLimit, in canonical form.
const (
	limitHeader     = "X-Ratelimit-Limit"
	remainingHeader = "X-Ratelimit-Remaining"
	resetHeader     = "X-Ratelimit-Reset"
)

// RateLimitHeaders is the middleware that sets the remaining requests of the current
// minute for the caller's organization (specification 8). Failures, answers to workers
// and organizations without a limit have no such headers. It must follow the guard. It
// checks the status when the header is written, because a later middleware may answer
// with a failure.
func (g *Authorizer) RateLimitHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller := auth.CallerFrom(c.Request().Context())
		if g.Requests == nil || caller.KeyID != uuid.Nil || caller.OrgID == uuid.Nil {
			return next(c)
		}
		response := c.Response()
		g.setRemaining(c, response.Header(), caller.OrgID)
		response.Before(func() {
			if response.Status < http.StatusBadRequest {
				return
			}
			for _, name := range []string{limitHeader, remainingHeader, resetHeader} {
				response.Header().Del(name)
			}
		})
		return next(c)
	}
}

// recentTimeout bounds the wait for the numbers: an answer without them is better than
// a late one.
const recentTimeout = time.Second

// setRemaining omits the headers if the numbers can't be read. The request itself
// reports problems with the database.
func (g *Authorizer) setRemaining(c echo.Context, h http.Header, orgID uuid.UUID) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), recentTimeout)
	defer cancel()
	used, err := g.Requests.Recent(ctx, orgID)
	if err != nil || used.Minute.Limit == nil {
		return
	}
	h.Set(limitHeader, strconv.Itoa(*used.Minute.Limit))
	h.Set(remainingHeader, strconv.FormatInt(*used.Minute.Remaining(), 10))
	h.Set(resetHeader, strconv.FormatInt(used.Minute.Ends.Unix(), 10))
}
