package rest

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session"
)

// GetSessionNetwork returns the traffic of a session.
func (s *Server) GetSessionNetwork(_ context.Context, r workerapi.GetSessionNetworkRequestObject) (workerapi.GetSessionNetworkResponseObject, error) {
	found, err := s.Launches.Network(r.SessionId)
	if err != nil {
		return nil, err
	}
	data, err := networkToAPI(found)
	return workerapi.GetSessionNetwork200JSONResponse{Success: true, Data: data}, err
}

// getBrowserNetwork returns the traffic of a running browser.
func (s *Server) getBrowserNetwork(c echo.Context, v access.AuthorizedRequest) error {
	id, err := uuid.Parse(v.SessionID)
	if err != nil {
		return access.ErrUnknownBrowser
	}
	found, err := s.Launches.Network(id)
	if fault.Is(err, fault.NotFound) {
		return access.ErrUnknownBrowser
	}
	if err != nil {
		return err
	}
	data, err := networkToAPI(found)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, workerapi.BrowserNetworkResponse{Success: true, Data: data})
}

func networkToAPI(n session.Network) (workerapi.BrowserNetwork, error) {
	items, err := settings.Convert[[]sharedapi.NetworkHost](n.Hosts)
	return workerapi.BrowserNetwork{Items: items, Totals: sharedapi.NetworkTotals(n.NetworkTotals), Proxy: n.Proxy}, err
}
