package devtools

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// viewTicket answers with a URL for viewing and one for control, for an operator's
// console (specification 4.4). Neither outlives the control token of the request:
// only the worker key can extend access to a launch.
func (s *Service) viewTicket(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.ViewTicketRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	launchID, err := uuid.Parse(v.LaunchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	lifetime := ticket.ViewTTL
	if request.TtlSeconds != nil {
		lifetime = time.Duration(*request.TtlSeconds) * time.Second
	}
	if lifetime <= 0 {
		return fault.Field("ttlSeconds", "must be positive")
	}
	v.Activity.Touch()
	view, viewEnds, err := s.tickets.MintFor(v.LaunchID, ticket.View, lifetime, v.Claims.Expires)
	if err != nil {
		return mintFault(err)
	}
	control, controlEnds, err := s.tickets.MintFor(v.LaunchID, ticket.Control, ticket.ControlTTL, v.Claims.Expires)
	if err != nil {
		return mintFault(err)
	}
	return c.JSON(http.StatusOK, workerapi.ViewTicketResponse{Success: true, Data: workerapi.ViewTicket{
		LaunchId:         launchID,
		ViewTicket:       view,
		ViewUrl:          s.links.Address.Browser(v.LaunchID, "view", access.TokenQuery(ticket.View, view)),
		ViewExpiresAt:    viewEnds.UTC(),
		ControlToken:     control,
		ControlUrl:       s.links.Address.Browser(v.LaunchID, "", access.TokenQuery(ticket.Control, control)),
		ControlExpiresAt: controlEnds.UTC(),
	}})
}

// mintFault returns the fault for a failed mint. If the token of the request has
// expired in the meantime, the answer is that for a wrong token.
func mintFault(err error) error {
	if errors.Is(err, ticket.ErrInvalid) {
		return access.ErrUnknownBrowser
	}
	return err
}
