package metrics

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// keyHeader is the header in which a program's own keys are sent.
const keyHeader = "X-API-Key"

// Register adds GET /metrics to the program's own routes, unless METRICS_ADDR is set.
// A request needs METRICS_TOKEN as bearer token, or a secret that accepts, which may be
// nil, returns true for: as bearer token, or in X-API-Key.
func (c Config) Register(e *echo.Echo, handler http.Handler, accepts func(secret string) bool) {
	if c.Address != "" {
		return
	}
	e.GET(Path, func(ctx echo.Context) error {
		if err := c.authenticate(ctx.Request(), accepts); err != nil {
			return err
		}
		handler.ServeHTTP(ctx.Response(), ctx.Request())
		return nil
	})
}

func (c Config) authenticate(r *http.Request, accepts func(secret string) bool) error {
	token, key := oapi.BearerToken(r.Header), r.Header.Get(keyHeader)
	switch {
	case token != "" && c.Token != "" && equal(token, c.Token):
		return nil
	case accepts != nil && (token != "" && accepts(token) || key != "" && accepts(key)):
		return nil
	case c.Token == "" && accepts == nil:
		return fault.New(fault.Unauthenticated, "Metrics are not enabled here. Set METRICS_TOKEN, or set METRICS_ADDR to serve them on an address of their own.")
	case token == "" && key == "":
		return fault.New(fault.Unauthenticated, "This request needs the metrics token (METRICS_TOKEN) as bearer token.")
	}
	return fault.New(fault.Unauthenticated, "The metrics token is invalid.")
}

// equal compares secrets in constant time.
func equal(a, b string) bool {
	first, second := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(first[:], second[:]) == 1
}
