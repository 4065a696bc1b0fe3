package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
)

const (
	streamTime  = 5 * time.Minute  // after which the client connects again
	streamWrite = 10 * time.Second // how long a client may take to read
)

// Register adds the route of the event stream, which does not answer JSON. The guard
// checks it like every operation.
func (h Webhooks) Register(e *echo.Echo) {
	const path = "/v1/events"
	e.GET(path, h.receiveEvents)
	e.HEAD(path, h.receiveEvents)
}

// receiveEvents implements the operation receiveEvents.
func (h Webhooks) receiveEvents(c echo.Context) error {
	duration := streamTime
	if seconds, err := strconv.Atoi(c.QueryParam("waitSeconds")); err == nil {
		duration = time.Duration(seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), duration)
	defer cancel()
	var after *uuid.UUID
	if id, err := uuid.Parse(c.Request().Header.Get("Last-Event-ID")); err == nil {
		after = &id
	}
	stream, err := h.Webhooks.OpenStream(ctx, auth.CallerFrom(ctx).OrgID, after)
	if err != nil {
		return err
	}
	defer stream.Close()
	response := c.Response()
	response.Header().Set("Content-Type", "text/event-stream")
	response.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	response.WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	c.SetRequest(c.Request().WithContext(ctx))
	return h.sendEvents(c, eventWriter{response, http.NewResponseController(response)}, stream)
}

// sendEvents sends events until the context of the request ends, the client is gone, too
// slow or not allowed any more, or the program shuts down. The client then connects again
// and continues.
func (h Webhooks) sendEvents(c echo.Context, w eventWriter, stream *webhook.Stream) error {
	defer w.stop()
	if err := w.send(": connected\n\n"); err != nil {
		return nil
	}
	ctx := c.Request().Context()
	for check := stream.NextCheck(time.Now()); ctx.Err() == nil; {
		wait, cancel := context.WithDeadline(ctx, check)
		events, err := stream.Next(wait)
		cancel()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if now := time.Now(); ctx.Err() == nil && !now.Before(check) {
			if !h.stillAllowed(c) || w.send(": alive\n\n") != nil {
				return nil
			}
			check = stream.NextCheck(now)
		}
		for _, event := range events {
			text, err := json.Marshal(event)
			if err != nil {
				return err
			}
			if err := w.send(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", event.ID, event.Type, text)); err != nil {
				return nil
			}
		}
	}
	return nil
}

// stillAllowed reports whether the caller may still receive events of the organization.
func (h Webhooks) stillAllowed(c echo.Context) bool {
	before := auth.CallerFrom(c.Request().Context()).OrgID
	return h.CheckAgain(c) == nil && auth.CallerFrom(c.Request().Context()).OrgID == before
}

// eventWriter writes a stream with a deadline for each part.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
}

func (w eventWriter) send(text string) error {
	if err := w.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := io.WriteString(w.response, text); err != nil {
		return err
	}
	return w.control.Flush()
}

// stop ends the deadline, which would stay for the end of the response and for the next one
// on the connection.
func (w eventWriter) stop() { _ = w.control.SetWriteDeadline(time.Time{}) }
