// Package fakecloud is an in-memory fake of the cloud for workers. It serves the
// cloud's API document with the same web server, request validation and generated
// interface as the cloud, so that neither side can diverge from the contract. It
// accounts for slots as the cloud does, and its answers can be scripted.
package fakecloud

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
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
}

// Entry is a call with the time of its receipt.
type Entry struct {
	At time.Time
	Call
}

// Cloud is a running cloud. It is safe for concurrent use.
type Cloud struct {
	cloudapi.StrictServerInterface // nil: checkOperation refuses all other operations

	URL string

	server      *http.Server
	serving     sync.WaitGroup
	onViolation func(text string)

	mu             sync.Mutex
	script         map[Operation][]Answer
	always         map[Operation]Answer
	profileAnswers map[profileOperation]Answer
	profiles       map[uuid.UUID]cloudapi.ProfileConfig
	slots          map[uuid.UUID]*slot // by session
	ended          map[uuid.UUID]bool  // sessions whose end was reported
	queue          []queued            // launches that wait for a slot, in order of arrival
	limit          *int
	next           time.Duration
	unknown        []uuid.UUID
	revoked        map[string]bool
	keys           []string
	down           bool
	contract       *string // replaces the contract version in answers; empty for none
	calls          []Entry
	callCounts     map[Operation]int
}

type slot struct {
	id, profile uuid.UUID
	machine     string
	boot        uuid.UUID
	seq         int64 // of a running session
	running     bool
	stale       bool
}

// Open starts a cloud without a slot limit on a free loopback port. It calls violated
// for each violation of the contract by a worker. The caller must call Close.
func Open(ctx context.Context, violated func(text string)) (*Cloud, error) {
	c := &Cloud{
		onViolation: violated, next: time.Minute, keys: []string{Key}, revoked: map[string]bool{},
		script: map[Operation][]Answer{}, always: map[Operation]Answer{}, profileAnswers: map[profileOperation]Answer{}, callCounts: map[Operation]int{},
		profiles: map[uuid.UUID]cloudapi.ProfileConfig{}, slots: map[uuid.UUID]*slot{}, ended: map[uuid.UUID]bool{},
	}
	document, err := oapi.Parse(cloudapi.Document)
	if err != nil {
		return nil, err
	}
	guard, err := oapi.NewGuard(document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"organizationKey": c.authenticate, "dashboardSession": c.rejectDashboard, "dashboardBearer": c.rejectDashboard,
	}})
	if err != nil {
		return nil, err
	}
	e := httpd.New(httpd.Options{Logger: slog.New(slog.DiscardHandler), Document: document})
	e.Pre(c.dropIfDown)
	e.Use(c.overrideContract, guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(c, []cloudapi.StrictMiddlewareFunc{c.checkOperation}))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.URL = "http://" + listener.Addr().String()
	c.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	c.serving.Go(func() { _ = c.server.Serve(listener) })
	return c, nil
}

// Close closes all connections and stops the cloud.
func (c *Cloud) Close() {
	_ = c.server.Close()
	c.serving.Wait()
}

func (c *Cloud) violation(format string, args ...any) { c.onViolation(fmt.Sprintf(format, args...)) }

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
	c.calls = append(c.calls, Entry{At: time.Now(), Call: call})
}

func (c *Cloud) rejectDashboard(r *http.Request) (context.Context, error) {
	if r.Header.Get("X-API-Key") != "" {
		c.violation("a worker called %s %s, which is for dashboards only", r.Method, r.URL.Path)
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
		if !slices.Contains([]Operation{Authorize, Start, End, Heartbeat, Health, Config, Sessions, Reclaim}, operation) {
			c.violation("a worker called %s", id)
			return nil, fault.New(fault.Forbidden, "Workers must not call this operation.")
		}
		if answer := c.scripted(operation, request); answer != nil {
			answer(ctx.Response(), ctx.Request())
			if ctx.Response().Committed {
				return nil, nil
			}
		}
		return next(ctx, request)
	}
}

func (c *Cloud) scripted(operation Operation, request any) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callCounts[operation]++
	if waiting := c.script[operation]; len(waiting) > 0 {
		c.script[operation] = waiting[1:]
		return waiting[0]
	}
	if answer := c.profileAnswers[profileOperation{operation, profileOf(request)}]; answer != nil {
		return answer
	}
	return c.always[operation]
}

// profileOf returns the profile of a call; uuid.Nil for none.
func profileOf(request any) uuid.UUID {
	switch r := request.(type) {
	case cloudapi.AuthorizeLaunchRequestObject:
		if r.Body.ProfileId != nil {
			return *r.Body.ProfileId
		}
	case cloudapi.StartProfileSessionRequestObject:
		return r.ProfileId
	case cloudapi.EndProfileSessionRequestObject:
		return r.ProfileId
	case cloudapi.GetProfileConfigRequestObject:
		return r.ProfileId
	}
	return uuid.Nil
}
