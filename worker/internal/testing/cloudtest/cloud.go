// Package cloudtest is a fake of the cloud for tests of the worker. It serves the
// cloud's API document with the same web server, request validation and generated
// interface as the cloud, so that neither side can diverge from the contract. It
// accounts for slots as the cloud does, and its answers can be scripted. It ends with
// the test, and fails the test if the worker violates the contract.
package cloudtest

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// Key is the valid organization key.
const Key = "svc_abcdefghijklmnopqrstuvwxyz234567"

// Operation is an operation that a worker may call.
type Operation string

// The operations. A call of any other is a violation.
const (
	Authorize Operation = "AuthorizeLaunch"
	Start     Operation = "StartProfileSession"
	End       Operation = "EndProfileSession"
	Heartbeat Operation = "HeartbeatLicenseSessions"
	Health    Operation = "GetCloudHealth"
	Config    Operation = "GetProfileConfig"
	Sessions  Operation = "ListLicenseSessions"
	Reclaim   Operation = "ReclaimLicenseSessions"
	UseSecret Operation = "UseSecret"
)

// Call is an accepted request.
type Call struct {
	Operation Operation
	Key       string // the organization key of the request
	ProfileID uuid.UUID
	SessionID uuid.UUID // empty for a heartbeat

	// Body; only one is set.
	Authorize *cloudapi.AuthorizeRequest
	Start     *cloudapi.StartSessionRequest
	End       *cloudapi.EndSessionRequest
	Heartbeat *cloudapi.HeartbeatRequest
	UseSecret *cloudapi.UseSecretRequest
}

// Cloud is a running cloud. It is safe for concurrent use.
type Cloud struct {
	cloudapi.StrictServerInterface // nil: checkOperation refuses all other operations

	URL string
	t   testing.TB

	mu         sync.Mutex
	script     map[Operation][]Answer
	always     map[Operation]Answer
	profiles   map[uuid.UUID]cloudapi.ProfileConfig
	slots      map[uuid.UUID]*slot           // by session
	ended      map[uuid.UUID]bool            // sessions whose end was reported
	queue      []queued                      // launches that wait for a slot, in order of arrival
	network    *sharedapi.StoredNetworkRules // of the organization
	secrets    map[string]Secret             // by name
	limit      *int
	next       time.Duration
	unknown    []uuid.UUID
	revoked    map[string]bool
	keys       []string
	down       bool
	contract   *string // replaces the contract version in answers; empty for none
	calls      []Call
	callCounts map[Operation]int
}

type slot struct {
	id, profile uuid.UUID
	machine     string
	boot        uuid.UUID
	seq         int64 // of a running session
	running     bool
	stale       bool
}

// New starts a cloud without a slot limit; it ends with the test.
func New(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{
		t: t, next: time.Minute, keys: []string{Key}, revoked: map[string]bool{},
		script: map[Operation][]Answer{}, always: map[Operation]Answer{}, callCounts: map[Operation]int{},
		profiles: map[uuid.UUID]cloudapi.ProfileConfig{}, slots: map[uuid.UUID]*slot{}, ended: map[uuid.UUID]bool{}, secrets: map[string]Secret{},
	}
	document, err := oapi.Parse(cloudapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oapi.NewGuard(document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"organizationKey": c.authenticate, "dashboardSession": c.rejectDashboard, "dashboardBearer": c.rejectDashboard,
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Logger: slog.New(slog.DiscardHandler), Document: document})
	e.Pre(c.dropIfDown)
	e.Use(c.overrideContract, guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(c, []cloudapi.StrictMiddlewareFunc{c.checkOperation}))
	server := testenv.Serve(t, e)
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
		return nil, fault.New(fault.Unauthenticated, "The organization key is invalid.")
	default:
		return context.WithValue(r.Context(), keyContextKey{}, key), nil
	}
}

// keyContextKey is the context key for the organization key of a call.
type keyContextKey struct{}

// record records a call. The caller holds the lock.
func (c *Cloud) record(ctx context.Context, call Call) {
	call.Key, _ = ctx.Value(keyContextKey{}).(string)
	c.calls = append(c.calls, call)
}

func (c *Cloud) rejectDashboard(r *http.Request) (context.Context, error) {
	if r.Header.Get("X-API-Key") != "" {
		c.t.Errorf("a worker called %s %s, which is for dashboards only", r.Method, r.URL.Path)
	}
	return nil, oapi.ErrNoCredential
}

// dropIfDown resets the connection of every request while the cloud is down.
func (c *Cloud) dropIfDown(next echo.HandlerFunc) echo.HandlerFunc {
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

// overrideContract sets the contract version of SetContractVersion.
func (c *Cloud) overrideContract(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		c.mu.Lock()
		contract := c.contract
		c.mu.Unlock()
		if h := ctx.Response().Header(); contract != nil && *contract == "" {
			h.Del("X-Svc-Contract")
		} else if contract != nil {
			h.Set("X-Svc-Contract", *contract)
		}
		return next(ctx)
	}
}

// checkOperation refuses operations that a worker must not call, and gives scripted
// answers.
func (c *Cloud) checkOperation(next cloudapi.StrictHandlerFunc, id string) cloudapi.StrictHandlerFunc {
	return func(ctx echo.Context, request any) (any, error) {
		operation := Operation(id)
		if !slices.Contains([]Operation{Authorize, Start, End, Heartbeat, Health, Config, Sessions, Reclaim, UseSecret}, operation) {
			c.t.Errorf("a worker called %s", id)
			return nil, fault.New(fault.Forbidden, "Workers must not call this operation.")
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
	c.callCounts[operation]++
	if waiting := c.script[operation]; len(waiting) > 0 {
		c.script[operation] = waiting[1:]
		return waiting[0]
	}
	return c.always[operation]
}
