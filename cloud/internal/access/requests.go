package access

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/auth"
)

// The headers that tell how much of apiRpmLimit is left, as net/http spells them.
const (
	limitHeader     = "X-Ratelimit-Limit"
	remainingHeader = "X-Ratelimit-Remaining"
	resetHeader     = "X-Ratelimit-Reset"
)

// RateLimitHeaders is the middleware that tells people how many requests of the minute
// are left to the organization that they act on (specification 8). Failures and
// the answers to workers do not tell, nor does an organization without a limit.
// It comes after the guard. The status that is written decides: what stands
// between may answer a failure by itself.
func (g *Authorizer) RateLimitHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller := auth.CallerFrom(c.Request().Context())
		if g.Requests == nil || caller.UserID == uuid.Nil || caller.OrgID == uuid.Nil {
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

// recentTimeout bounds the wait for the numbers: an answer without them is better
// than a late one.
const recentTimeout = time.Second

// setRemaining leaves the headers out where the numbers can't be read: the
// request itself tells what is wrong with the database.
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
