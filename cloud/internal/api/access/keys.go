package access

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/oapi"
)

const (
	idempotencyHeader = "Idempotency-Key"

	// deferredOperation is the only operation whose handler verifies a recalled key. It
	// does so in the statement that takes the slot, which saves a launch one round trip.
	deferredOperation = "authorizeLaunch"
)

// Keys verifies organization keys.
type Keys interface {
	// Verify returns the identity of a valid key, or an Unauthenticated error.
	Verify(ctx context.Context, secret string) (apikey.Identity, error)
	// Recall returns the identity of a key that was valid before, without checking
	// whether it still is.
	Recall(secret string) (apikey.Identity, bool)
}

// organizationKey is the authenticator for organization keys. A recalled key is pending
// until Authorize knows the operation. An Idempotency-Key needs the Caller before the
// handler runs.
func (g *Authorizer) organizationKey(r *http.Request) (context.Context, error) {
	secret := r.Header.Get(keyHeader)
	if secret == "" {
		return nil, oapi.ErrNoCredential
	}
	if identity, ok := g.keys.Recall(secret); ok && r.Header.Get(idempotencyHeader) == "" {
		return auth.WithPendingKey(r.Context(), auth.PendingKey{KeyID: identity.KeyID, OrgID: identity.OrgID, Secret: secret}), nil
	}
	return g.verifyKey(r.Context(), secret)
}

// verifyPendingKey verifies a pending key, unless the handler does.
func (g *Authorizer) verifyPendingKey(ctx context.Context, op oapi.Operation) (context.Context, error) {
	key, pending := auth.PendingKeyFrom(ctx)
	if !pending || op.ID == deferredOperation {
		return ctx, nil
	}
	return g.verifyKey(ctx, key.Secret)
}

// verifyKey returns the context of a worker with a valid key.
func (g *Authorizer) verifyKey(ctx context.Context, secret string) (context.Context, error) {
	identity, err := g.keys.Verify(ctx, secret)
	if err != nil {
		return nil, err
	}
	return auth.WithCaller(ctx, auth.Caller{KeyID: identity.KeyID, OrgID: identity.OrgID}), nil
}

// RejectInvalidKey is the middleware that answers a failed request with an invalid
// pending key with that error only, so that other errors are not disclosed. It must
// precede the guard.
func (g *Authorizer) RejectInvalidKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil {
			return nil
		}
		ctx := c.Request().Context()
		if key, pending := auth.PendingKeyFrom(ctx); pending {
			if _, invalid := g.keys.Verify(ctx, key.Secret); invalid != nil {
				return invalid
			}
		}
		return err
	}
}
