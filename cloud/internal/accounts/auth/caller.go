package auth

import (
	"context"

	"github.com/google/uuid"
)

// Role is what a member may do in an organization (specification 2.7).
type Role string

// The roles, the most powerful first.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Member Role = "member"
)

// Caller is the authenticated caller of a request. A dashboard session and an access
// token of a user have a user; an access token of a service account has the account; a
// worker has a key. OrgID is the organization that the request acts on:
// the key's organization, or the one that the authorizer determined for the user,
// together with the user's role. ActiveOrgID is what the session stores, zero for
// none, or the token's organization; the membership has not been checked.
type Caller struct {
	UserID      uuid.UUID
	Session     string // the token of the dashboard session; never logged
	SessionID   uuid.UUID
	Token       *AccessToken // nil if the request has no access token
	ActiveOrgID uuid.UUID
	KeyID       uuid.UUID
	OrgID       uuid.UUID
	Role        Role

	ServiceAccount *ServiceAccount // the subject of Token; only what identifies it, and its scopes
}

// PendingKey is the recalled organization key of a request whose handler verifies
// it. Such a request has no Caller, so a handler that does not expect a PendingKey acts
// for no organization.
type PendingKey struct {
	KeyID, OrgID uuid.UUID
	Secret       string // never logged
}

// callerKey is the context key of the Caller or the PendingKey.
type callerKey struct{}

// WithCaller returns a context with the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of a request; the zero Caller is anonymous.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// WithPendingKey returns a context with a key that the handler verifies.
func WithPendingKey(ctx context.Context, k PendingKey) context.Context {
	return context.WithValue(ctx, callerKey{}, k)
}

// PendingKeyFrom returns the key that the handler has to verify, if there is one.
func PendingKeyFrom(ctx context.Context) (PendingKey, bool) {
	k, ok := ctx.Value(callerKey{}).(PendingKey)
	return k, ok
}
