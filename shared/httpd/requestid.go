package httpd

import (
	"context"
	"regexp"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
)

type requestIDKey struct{}

// RequestID is the id of the request that ctx belongs to; empty outside of one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// WithRequestID returns a context that carries the id, for work that goes on
// after its request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

type clientAddressKey struct{}

// ClientAddress is where the request that ctx belongs to comes from, as the
// trusted proxies tell it; empty outside of one.
func ClientAddress(ctx context.Context) string {
	address, _ := ctx.Value(clientAddressKey{}).(string)
	return address
}

// WithClientAddress returns a context that carries the address.
func WithClientAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, clientAddressKey{}, address)
}

// A client's own id is taken only in a form that can't harm a log or a header.
var acceptableRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{8,64}$`)

func requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		id := r.Header.Get(echo.HeaderXRequestID)
		if !acceptableRequestID.MatchString(id) {
			id = uuid.Must(uuid.NewV7()).String()
		}
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		c.SetRequest(r.WithContext(WithClientAddress(WithRequestID(r.Context(), id), c.RealIP())))
		return next(c)
	}
}
