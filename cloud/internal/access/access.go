// Package access decides who may call an operation of the cloud: it finds out who
// calls, by the credential that the operation asks for, and whether that user's
// role in the organization is enough. It fills in the auth.Caller that the
// handlers read.
package access

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/cloud/internal/usage"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// SessionCookie is the name of the cookie that carries a dashboard session.
const SessionCookie = "svc_session"

const (
	keyHeader         = "X-Api-Key" // as net/http spells it: other spellings are converted each time
	idempotencyHeader = "Idempotency-Key"
	bearerScheme      = "Bearer"
)

// Sessions knows the dashboard sessions.
type Sessions interface {
	// Authenticate returns the caller whose session has this token, or an
	// Unauthenticated error.
	Authenticate(ctx context.Context, token string) (auth.Caller, error)
}

// Keys knows the organization keys.
type Keys interface {
	// Authenticate returns whose key this is, or an Unauthenticated error.
	Authenticate(ctx context.Context, secret string) (apikey.Identity, error)
	// Recall returns whose key this is if that is known from before. Whether the
	// key is still good is not asked.
	Recall(secret string) (apikey.Identity, bool)
}

// Memberships knows the members of organizations.
type Memberships interface {
	// Role returns the user's role in the organization, "" for a stranger.
	Role(ctx context.Context, orgID, userID uuid.UUID) (string, error)
}

// Requests counts requests, and knows how many an organization may make.
type Requests interface {
	// Count counts a request that acts on the organization. It does not block.
	Count(orgID uuid.UUID)
	// Recent returns the organization's use of its limits; it may be some seconds
	// old.
	Recent(ctx context.Context, orgID uuid.UUID) (usage.Usage, error)
}

// Authorizer authenticates and authorizes.
type Authorizer struct {
	// Requests, when set, counts what Authorize lets pass. Set it before use.
	Requests Requests

	sessions    Sessions
	keys        Keys
	memberships Memberships
	origins     *http.CrossOriginProtection
}

// New returns a Authorizer. publicURL is where browsers reach the service: requests
// from its pages are not foreign, also behind a proxy that changes Host.
func New(sessions Sessions, keys Keys, memberships Memberships, publicURL *url.URL) (*Authorizer, error) {
	g := &Authorizer{sessions: sessions, keys: keys, memberships: memberships, origins: http.NewCrossOriginProtection()}
	if err := g.origins.AddTrustedOrigin(publicURL.Scheme + "://" + publicURL.Host); err != nil {
		return nil, fmt.Errorf("read the public address: %w", err)
	}
	return g, nil
}

// Authenticators are the checks of the document's security schemes.
func (g *Authorizer) Authenticators() map[string]oapi.Authenticator {
	return map[string]oapi.Authenticator{
		"dashboardSession": g.cookie,
		"dashboardBearer":  g.bearer,
		"organizationKey":  g.organizationKey,
	}
}

// cookie authenticates a dashboard session by its cookie. A browser sends it
// whoever made the page that asks, so a request that changes something must not
// come from another site.
func (g *Authorizer) cookie(r *http.Request) (context.Context, error) {
	cookie, err := r.Cookie(SessionCookie)
	if err != nil || cookie.Value == "" {
		return nil, oapi.ErrNoCredential
	}
	if err := g.sameOrigin(r); err != nil {
		return nil, err
	}
	return g.session(r.Context(), cookie.Value)
}

// bearer authenticates a dashboard session by its token.
func (g *Authorizer) bearer(r *http.Request) (context.Context, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, bearerScheme) || token == "" {
		return nil, oapi.ErrNoCredential
	}
	return g.session(r.Context(), token)
}

func (g *Authorizer) session(ctx context.Context, token string) (context.Context, error) {
	caller, err := g.sessions.Authenticate(ctx, token)
	if err != nil {
		return nil, err
	}
	return auth.WithCaller(ctx, caller), nil
}

// organizationKey authenticates a worker by its organization's key. One that is recalled
// remains to be checked, which Authorize and RejectInvalidKey see to.
func (g *Authorizer) organizationKey(r *http.Request) (context.Context, error) {
	secret := r.Header.Get(keyHeader)
	if secret == "" {
		return nil, oapi.ErrNoCredential
	}
	if identity, ok := g.keys.Recall(secret); ok && r.Header.Get(idempotencyHeader) == "" {
		return auth.WithCaller(r.Context(), auth.Caller{KeyID: identity.KeyID, OrgID: identity.OrgID, Unchecked: secret}), nil
	}
	return g.authenticateKey(r.Context(), secret)
}

// authenticateKey is the context of a worker whose key is good.
func (g *Authorizer) authenticateKey(ctx context.Context, secret string) (context.Context, error) {
	identity, err := g.keys.Authenticate(ctx, secret)
	if err != nil {
		return nil, err
	}
	return auth.WithCaller(ctx, auth.Caller{KeyID: identity.KeyID, OrgID: identity.OrgID}), nil
}

// sameOrigin refuses a request that changes something and that a browser made
// for a page of another site. Programs that are no browsers pass.
func (g *Authorizer) sameOrigin(r *http.Request) error {
	if err := g.origins.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "Requests from pages of another site are not allowed.")
	}
	return nil
}
