// Package cloudtest is a cloud for the worker's tests. It serves the real
// document through the same web server, guard and generated interface as the
// cloud does, so that neither side of an exchange can drift from the contract;
// what it answers is scripted.
package cloudtest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// Key is the organization key that opens the cloud.
const Key = "svc_abcdefghijklmnopqrstuvwxyz234567"

// Operation is one of those that a worker calls.
type Operation string

// The operations. A call of any other fails the test.
const (
	Authorize Operation = "AuthorizeLaunch"
	Start     Operation = "StartProfileSession"
	End       Operation = "EndProfileSession"
	Heartbeat Operation = "HeartbeatLicenseSessions"
)

// Call is a request that was understood and taken in.
type Call struct {
	Operation Operation
	Key       string // it was made with
	ProfileID uuid.UUID
	SessionID uuid.UUID // not of a heartbeat

	// The body; one is set.
	Authorize *cloudapi.AuthorizeRequest
	Start     *cloudapi.StartSessionRequest
	End       *cloudapi.EndSessionRequest
	Heartbeat *cloudapi.HeartbeatRequest
}

// Cloud is a running cloud. It is safe for concurrent use.
type Cloud struct {
	cloudapi.StrictServerInterface // nil: expected lets no call get there

	URL string

	t testing.TB

	mu       sync.Mutex
	script   map[Operation][]Answer
	always   map[Operation]Answer
	profiles map[uuid.UUID]cloudapi.ProfileConfig
	slots    map[uuid.UUID]*slot // by session
	limit    *int
	next     time.Duration
	unknown  []uuid.UUID
	revoked  map[string]bool
	keys     []string
	down     bool
	calls    []Call
	asked    map[Operation]int
}

type slot struct {
	id, profile uuid.UUID
	running     bool
}

// New starts a cloud that grants without limit; it ends with the test.
func New(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{
		t: t, next: time.Minute, keys: []string{Key}, revoked: map[string]bool{},
		script: map[Operation][]Answer{}, always: map[Operation]Answer{}, asked: map[Operation]int{},
		profiles: map[uuid.UUID]cloudapi.ProfileConfig{}, slots: map[uuid.UUID]*slot{},
	}
	document, err := oapi.Load(t.Context(), openapi.Files, "cloud.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oapi.NewGuard(document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"organizationKey": c.authenticate, "dashboardSession": c.noDashboard, "dashboardBearer": c.noDashboard,
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Logger: slog.New(slog.DiscardHandler)})
	e.Pre(c.reachable)
	e.Use(guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(c, []cloudapi.StrictMiddlewareFunc{c.expected}))
	server := httptest.NewServer(e)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c.URL = server.URL
	return c
}

func (c *Cloud) authenticate(r *http.Request) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch key := r.Header.Get("X-API-Key"); {
	case key == "":
		return nil, oapi.ErrNoCredential
	case !slices.Contains(c.keys, key) || c.revoked[key]:
		return nil, fault.New(fault.Unauthenticated, "The organization key is wrong.")
	default:
		return context.WithValue(r.Context(), keyOf{}, key), nil
	}
}

// keyOf finds the key of a call in its context.
type keyOf struct{}

// note keeps a call. The caller holds the lock.
func (c *Cloud) note(ctx context.Context, call Call) {
	call.Key, _ = ctx.Value(keyOf{}).(string)
	c.calls = append(c.calls, call)
}

func (c *Cloud) noDashboard(r *http.Request) (context.Context, error) {
	if r.Header.Get("X-API-Key") != "" {
		c.t.Errorf("a worker called %s %s, which is for people", r.Method, r.URL.Path)
	}
	return nil, oapi.ErrNoCredential
}

// reachable breaks the connection of every request while the cloud is down.
func (c *Cloud) reachable(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		c.mu.Lock()
		down := c.down
		c.mu.Unlock()
		if down {
			Reset(ctx.Response(), ctx.Request())
			return nil
		}
		return next(ctx)
	}
}

// expected fails the test for an operation that is not the worker's, and gives
// the scripted answer where there is one.
func (c *Cloud) expected(next cloudapi.StrictHandlerFunc, id string) cloudapi.StrictHandlerFunc {
	return func(ctx echo.Context, request any) (any, error) {
		operation := Operation(id)
		if !slices.Contains([]Operation{Authorize, Start, End, Heartbeat}, operation) {
			c.t.Errorf("a worker called %s", id)
			return nil, fault.New(fault.Forbidden, "This is not for workers.")
		}
		if answer := c.scripted(operation); answer != nil {
			answer(ctx.Response(), ctx.Request())
			if ctx.Response().Committed {
				return nil, nil
			}
		}
		return next(ctx, request)
	}
}

func (c *Cloud) scripted(operation Operation) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[operation]++
	if waiting := c.script[operation]; len(waiting) > 0 {
		c.script[operation] = waiting[1:]
		return waiting[0]
	}
	return c.always[operation]
}
