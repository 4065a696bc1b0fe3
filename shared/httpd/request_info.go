package httpd

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/lazy"
)

// requestInfo identifies a request and its client. It is immutable once it is in
// a context.
type requestInfo struct{ id, address, userAgent string }

type requestInfoKey struct{}

func withRequestInfo(ctx context.Context, o *requestInfo) context.Context {
	return context.WithValue(ctx, requestInfoKey{}, o)
}

// requestInfoFrom returns the request information in ctx; the zero value outside of a
// request.
func requestInfoFrom(ctx context.Context) requestInfo {
	if o, ok := ctx.Value(requestInfoKey{}).(*requestInfo); ok {
		return *o
	}
	return requestInfo{}
}

// RequestID returns the ID of the request of ctx; empty outside of a request.
func RequestID(ctx context.Context) string { return requestInfoFrom(ctx).id }

// ClientAddress returns the client address of the request of ctx, taken from
// X-Forwarded-For if a trusted proxy sent it; empty outside of a request.
func ClientAddress(ctx context.Context) string { return requestInfoFrom(ctx).address }

// UserAgent returns the User-Agent of the request of ctx; empty outside of a
// request.
func UserAgent(ctx context.Context) string { return requestInfoFrom(ctx).userAgent }

// acceptableRequestID limits client-supplied IDs to a form that is safe in logs
// and headers.
var acceptableRequestID = lazy.Regexp(`^[A-Za-z0-9._-]{8,64}$`)

func requestID(r *http.Request) string {
	id := r.Header.Get(echo.HeaderXRequestID)
	if !acceptableRequestID().MatchString(id) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	return id
}
