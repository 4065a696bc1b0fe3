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

// Caller is who makes a request, as far as it has been found out. A dashboard
// session has a user; a worker has a key. OrgID is the organization that the
// request acts on: of a key its own, of a user the one that the authorizer
// settled, together with the user's role there. ActiveOrgID is only what the
// session says, zero for none: whether the user is still a member there has not
// been looked up.
type Caller struct {
	UserID      uuid.UUID
	Session     string // the token of the dashboard session; never logged
	SessionID   uuid.UUID
	ActiveOrgID uuid.UUID
	KeyID       uuid.UUID
	Unchecked   string // never logged
	OrgID       uuid.UUID
	Role        Role
}

type callerKey struct{}

// WithCaller returns a context that knows the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of a request; the zero Caller is a stranger.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
