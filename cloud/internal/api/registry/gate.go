// Package registry serves the worker's image by the OCI Distribution protocol, under
// paths that contain an organization key (specification 5.3). It reads the image from
// one repository of an upstream registry. Clients can pull, but not push.
//
// The key in the path is the credential. It is removed from the request before anything
// else handles the request, so that it reaches neither logs nor traces.
package registry

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clientaddr"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
)

// Keys verifies organization keys.
type Keys interface {
	// Verify returns nil if the key is valid now, and Unauthenticated if it is malformed,
	// unknown, revoked or expired.
	Verify(ctx context.Context, key string) error
	// Known reports without asking the database whether the key was valid before.
	Known(key string) bool
}

// Options configures the gate.
type Options struct {
	Keys      Keys
	Upstream  *Upstream
	Readiness *httpd.Readiness
	HTTP      httpd.Options
}

// verifyTimeout limits the verification of a key.
const verifyTimeout = 10 * time.Second

type gate struct {
	Options
	failures *failureLimiter
}

// New returns the handler of the gate: /v2/, /livez and /readyz.
func New(options Options) http.Handler {
	g := &gate{Options: options, failures: newFailureLimiter()}
	web := httpd.New(options.HTTP)
	web.HTTPErrorHandler = errorHandler(web.HTTPErrorHandler)
	web.Use(readOnly)
	web.GET("/livez", status)
	web.GET("/readyz", func(c echo.Context) error {
		if err := options.Readiness.Err(c.Request().Context()); err != nil {
			return err
		}
		return status(c)
	})
	for _, path := range []string{"/v2", "/v2/"} {
		web.GET(path, func(c echo.Context) error {
			c.Response().Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
			return c.JSON(http.StatusOK, struct{}{})
		})
	}
	for _, path := range []string{imagePath + "/:kind/:reference", imagePath + "/tags/list", unknownPath} {
		web.GET(path, g.serve)
	}
	return hideKey(web)
}

// readOnly refuses all methods but GET and HEAD, on every path.
func readOnly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if method := c.Request().Method; method != http.MethodGet && method != http.MethodHead {
			c.Response().Header().Set(echo.HeaderAllow, "GET, HEAD")
			return fault.New(fault.MethodNotAllowed, "This registry is read-only: it supports GET and HEAD.")
		}
		return next(c)
	}
}

func status(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]any{"success": true, "data": map[string]string{"status": "ok"}})
}

// serve answers a request under a key. An invalid key and a repository that does not
// exist have the same response after the same steps.
func (g *gate) serve(c echo.Context) error {
	ctx := c.Request().Context()
	t := targetFrom(ctx)
	if err := g.verify(ctx, t.key); err != nil {
		return err
	}
	switch {
	case t.kind == "":
		return errNameUnknown()
	case t.kind == tags:
		return g.list(c, t)
	case !t.valid():
		return errReference(t)
	}
	return g.content(c, t)
}

// verify returns nil if the key is valid. A client with too many invalid keys is
// refused before the database is queried, unless its key was valid before: other machines
// behind the same address keep pulling.
func (g *gate) verify(ctx context.Context, key string) error {
	client, _ := clientaddr.Network(httpd.ClientAddress(ctx)) // all invalid addresses are one client
	if wait := g.failures.wait(client); wait > 0 && !g.Keys.Known(key) {
		f := fault.New(fault.RateLimited, "Too many requests with invalid organization keys. Try again later.")
		f.RetryAfter = wait
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	err := g.Keys.Verify(ctx, key)
	if fault.Is(err, fault.Unauthenticated) {
		g.failures.add(client)
		return errNameUnknown()
	}
	return err
}
