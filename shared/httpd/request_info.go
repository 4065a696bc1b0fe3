package httpd

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/lazy"
)

// requestInfo is which request something belongs to, and where that comes from. It
// does not change once a context carries it.
type requestInfo struct{ id, address, userAgent string }

type requestInfoKey struct{}

func withRequestInfo(ctx context.Context, o *requestInfo) context.Context {
	return context.WithValue(ctx, requestInfoKey{}, o)
}

// requestInfoFrom is the zero origin outside of a request.
func requestInfoFrom(ctx context.Context) requestInfo {
	if o, ok := ctx.Value(requestInfoKey{}).(*requestInfo); ok {
		return *o
	}
	return requestInfo{}
}

// RequestID is the id of the request that ctx belongs to; empty outside of one.
func RequestID(ctx context.Context) string { return requestInfoFrom(ctx).id }

// WithRequestID returns a context that carries the id, for work that goes on
// after its request.
func WithRequestID(ctx context.Context, id string) context.Context {
	o := requestInfoFrom(ctx)
	o.id = id
	return withRequestInfo(ctx, &o)
}

// ClientAddress is where the request that ctx belongs to comes from, as the
// trusted proxies tell it; empty outside of one.
func ClientAddress(ctx context.Context) string { return requestInfoFrom(ctx).address }

// WithClientAddress returns a context that carries the address.
func WithClientAddress(ctx context.Context, address string) context.Context {
	o := requestInfoFrom(ctx)
	o.address = address
	return withRequestInfo(ctx, &o)
}

// UserAgent is what the client of the request that ctx belongs to calls itself;
// empty outside of one, and when it doesn't say.
func UserAgent(ctx context.Context) string { return requestInfoFrom(ctx).userAgent }

// A client's own id is taken only in a form that can't harm a log or a header.
var acceptableRequestID = lazy.Regexp(`^[A-Za-z0-9._-]{8,64}$`)

func requestID(r *http.Request) string {
	id := r.Header.Get(echo.HeaderXRequestID)
	if !acceptableRequestID().MatchString(id) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	return id
}
