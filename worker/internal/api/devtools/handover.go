package devtools

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

var errNoHandover = fault.New(fault.Conflict, "There was no handover of this browser.")

// handoverRoutes returns the routes that hand the browser to a person.
func (s *Service) handoverRoutes() []access.Route {
	return []access.Route{
		{Path: "/handover", Method: http.MethodPost, Handle: s.startHandover},
		{Path: "/handover", Method: http.MethodGet, Handle: s.getHandover},
		{Path: "/handover", Method: http.MethodDelete, Handle: s.cancelHandover},
		{Path: "/handover/done", Method: http.MethodPost, Handle: s.completeHandover},
		{Path: "/handover/questions", Method: http.MethodGet, Handle: s.listQuestions},
		{Path: "/handover/questions/:questionId", Method: http.MethodPost, Handle: s.answerQuestion},
	}
}

// startHandover starts a handover and answers with a URL of the live view.
func (s *Service) startHandover(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.StartHandoverRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	launchID, err := uuid.Parse(v.LaunchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	handoverRequest := handover.Request{Reason: request.Reason, Timeout: handover.DefaultTimeout}
	if request.TimeoutSeconds != nil {
		handoverRequest.Timeout = handover.Seconds(int64(*request.TimeoutSeconds))
	}
	token, _, err := s.tickets.MintFor(v.LaunchID, ticket.Control, handoverRequest.Timeout+ticket.ViewTTL, v.Claims.Expires)
	if err != nil {
		return mintFault(err)
	}
	active, err := v.Calls.Handovers().Begin(handoverRequest)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, s.links.Address.BrowserPath(v.LaunchID)+"handover")
	return c.JSON(http.StatusCreated, workerapi.StartedHandoverResponse{Success: true, Data: workerapi.StartedHandover{
		LaunchId: launchID, Status: workerapi.HandoverStatusOpen, Reason: active.Reason, Since: active.Since, Until: active.Until,
		ViewUrl: s.links.Address.Browser(v.LaunchID, "view", access.TokenQuery(ticket.Control, token)),
	}})
}

// getHandover answers with the open or last handover, after it has ended if the request
// waits.
func (s *Service) getHandover(c echo.Context, v access.AuthorizedRequest) error {
	query := queryOf(c)
	wait := time.Duration(query.integer("waitSeconds", 0)) * time.Second
	if err := query.err(); err != nil {
		return err
	}
	last, _ := v.Calls.Handovers().Last()
	if last == nil {
		return errNoHandover
	}
	if wait > 0 {
		ctx, done, err := s.beginTask(c.Request().Context(), v, wait)
		if err != nil {
			return err
		}
		defer done()
		select {
		case <-last.Ended():
		case <-ctx.Done():
		}
	}
	return writeHandover(c, v, last)
}

func (s *Service) cancelHandover(c echo.Context, v access.AuthorizedRequest) error {
	ended, err := v.Calls.Handovers().Cancel()
	if err != nil {
		return err
	}
	return writeHandover(c, v, ended)
}

// completeHandover ends the handover because the person is done. Package access admits
// no view ticket.
func (s *Service) completeHandover(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.CompleteHandoverRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	note := ""
	if request.Note != nil {
		note = *request.Note
	}
	ended, err := v.Calls.Handovers().Finish(note)
	if err != nil {
		return err
	}
	return writeHandover(c, v, ended)
}

func writeHandover(c echo.Context, v access.AuthorizedRequest, h *handover.Handover) error {
	launchID, err := uuid.Parse(v.LaunchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	data := workerapi.Handover{
		LaunchId: launchID, Status: workerapi.HandoverStatusOpen, Reason: h.Reason, Since: h.Since, Until: h.Until,
	}
	if result, ended := h.Result(); ended {
		if result.Outcome == handover.BrowserEnded {
			return access.ErrUnknownBrowser
		}
		data.Status, data.Seconds = workerapi.HandoverStatus(result.Outcome), new(result.Seconds())
		if result.Note != "" {
			data.Note = &result.Note
		}
	}
	return c.JSON(http.StatusOK, workerapi.HandoverResponse{Success: true, Data: data})
}
