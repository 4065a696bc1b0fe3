package rest

import (
	"context"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// StripeWebhook receives Stripe's events.
type StripeWebhook struct {
	Events eventReceiver
}

type eventReceiver interface {
	Receive(ctx context.Context, payload []byte, signature string) error
}

// maxEvent is the maximum size of an event in bytes.
const maxEvent = 1 << 20

// Register adds the route. It has no guard, because the signature covers the raw
// body, which therefore must not be read before.
func (w StripeWebhook) Register(e *echo.Echo) { e.POST("/v1/webhooks/stripe", w.receive) }

// receive implements the operation receiveStripeEvent.
func (w StripeWebhook) receive(c echo.Context) error {
	r := c.Request()
	payload, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxEvent))
	if err != nil {
		return err
	}
	if err := w.Events.Receive(r.Context(), payload, r.Header.Get("Stripe-Signature")); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, cloudapi.EmptyResponse{Success: true, Data: cloudapi.Empty{}})
}
