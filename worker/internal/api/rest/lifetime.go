package rest

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Routes returns the routes of browsers, for package access.
func (s *Server) Routes() []access.Route {
	return []access.Route{
		{Path: "/lifetime", Method: http.MethodPatch, Handle: s.updateBrowserLifetime},
		{Path: "/network", Method: http.MethodGet, Handle: s.getBrowserNetwork},
	}
}

// updateBrowserLifetime changes the limits of a browser. The body was validated against the
// API document.
func (s *Server) updateBrowserLifetime(c echo.Context, v access.AuthorizedRequest) error {
	var body workerapi.UpdateLifetimeRequest
	if err := json.NewDecoder(c.Request().Body).Decode(&body); err != nil {
		return fault.Wrap(err, fault.Validation, "The request body is not valid JSON.", fault.Detail{
			Field: "body", Code: fault.InvalidFormat, Message: "must be JSON that matches the documented schema",
		})
	}
	launchID, err := uuid.Parse(v.LaunchID)
	if err != nil {
		return access.ErrUnknownBrowser
	}
	running, ok := s.Launches.Running(launchID)
	if !ok {
		return access.ErrUnknownBrowser
	}
	limits := launch.NewLimitChanges(body.IdleTimeoutSeconds, body.MaxDurationSeconds, body.ConnectTimeoutSeconds)
	_, err = s.Launches.Update(running.Session.ID, launch.Update{Limits: limits})
	switch {
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
		return access.ErrUnknownBrowser
	case err != nil:
		return err
	}
	return c.JSON(http.StatusOK, workerapi.BrowserLifetimeResponse{Success: true, Data: lifetimeToAPI(launchID, running.Lifetime)})
}

func lifetimeToAPI(launchID uuid.UUID, lifetime *launch.Lifetime) workerapi.BrowserLifetime {
	seconds := func(d time.Duration) *int32 { return new(int32(d / time.Second)) }
	limits := lifetime.Limits()
	data := workerapi.BrowserLifetime{
		LaunchId: launchID, IdleTimeoutSeconds: seconds(limits.Idle), MaxDurationSeconds: seconds(limits.Max), ConnectTimeoutSeconds: seconds(limits.Connect),
	}
	if end, reason := lifetime.Expiry(); !end.IsZero() {
		data.ExpiresAt, data.ExpiresReason = &end, new(workerapi.ExpiresReason(reason))
	}
	return data
}
