// Package access authenticates and authorizes the requests of the cloud API: it
// identifies the caller by the credential that the operation requires, and checks the
// user's role in the organization. It sets the auth.Caller that handlers read.
package access

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/usage"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// SessionCookie is the name of the cookie that carries a dashboard session.
const SessionCookie = "svc_session"

const keyHeader = "X-Api-Key" // canonical form, so that net/http need not convert it

// Sessions authenticates dashboard sessions and access tokens.
type Sessions interface {
	// Authenticate returns the caller of the session with this token, or an
	// Unauthenticated error.
	Authenticate(ctx context.Context, token string) (auth.Caller, error)
	// AuthenticateToken returns the caller of a request with this access token, or an
	// Unauthenticated error.
	AuthenticateToken(ctx context.Context, token string) (auth.Caller, error)
}

// Memberships returns the roles of users.
type Memberships interface {
	// Role returns the user's role in the organization, "" if the user is not a member.
	Role(ctx context.Context, orgID, userID uuid.UUID) (string, error)
}

// Requests counts requests and returns the request limits.
type Requests interface {
	// Count counts a request that acts on the organization. It does not block.
	Count(orgID uuid.UUID)
	// Recent returns the organization's usage; it may be some seconds old.
	Recent(ctx context.Context, orgID uuid.UUID) (usage.Usage, error)
}

// Authorizer authenticates and authorizes requests.
type Authorizer struct {
	// Requests, if set, counts the requests that Authorize accepts. Set it before use.
	Requests Requests

	sessions    Sessions
	keys        Keys
	memberships Memberships
	origins     *http.CrossOriginProtection
}

// New returns an Authorizer. publicURL is the address of the service for browsers:
// requests from its pages are same-origin even behind a proxy that changes Host.
func New(sessions Sessions, keys Keys, memberships Memberships, publicURL *url.URL) (*Authorizer, error) {
	g := &Authorizer{sessions: sessions, keys: keys, memberships: memberships, origins: http.NewCrossOriginProtection()}
	if err := g.origins.AddTrustedOrigin(publicURL.Scheme + "://" + publicURL.Host); err != nil {
		return nil, fmt.Errorf("trust the public address: %w", err)
	}
	return g, nil
}

// Authenticators returns the authenticator of each security scheme in the document.
func (g *Authorizer) Authenticators() map[string]oapi.Authenticator {
	return map[string]oapi.Authenticator{
		"dashboardSession": g.cookie,
		"dashboardBearer":  g.bearer,
		"organizationKey":  g.organizationKey,
	}
}

// cookie authenticates a dashboard session by its cookie. Browsers also send cookies
// with requests of other sites' pages, so a request that changes something must be
// same-origin.
func (g *Authorizer) cookie(r *http.Request) (context.Context, error) {
	cookie, err := r.Cookie(SessionCookie)
	if err != nil || cookie.Value == "" {
		return nil, oapi.ErrNoCredential
	}
	if err := g.sameOrigin(r); err != nil {
		return nil, err
	}
	return identify(r, cookie.Value, g.sessions.Authenticate)
}

// bearer authenticates a dashboard session by its token, or an access token.
func (g *Authorizer) bearer(r *http.Request) (context.Context, error) {
	token := oapi.BearerToken(r.Header)
	if token == "" {
		return nil, oapi.ErrNoCredential
	}
	if oapi.KindOfKey(token) == oapi.AccessToken {
		return identify(r, token, g.sessions.AuthenticateToken)
	}
	return identify(r, token, g.sessions.Authenticate)
}

// identify returns the context of the user with this token.
func identify(r *http.Request, token string, authenticate func(context.Context, string) (auth.Caller, error)) (context.Context, error) {
	caller, err := authenticate(r.Context(), token)
	if err != nil {
		return nil, err
	}
	return withExpectedOrganization(auth.WithCaller(r.Context(), caller), r), nil
}

// sameOrigin refuses a request that changes something if a browser sent it for a page
// of another site. Requests of other programs pass.
func (g *Authorizer) sameOrigin(r *http.Request) error {
	if err := g.origins.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "Requests from pages of another site are not allowed.")
	}
	return nil
}
