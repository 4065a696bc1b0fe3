package mcp

import (
	"cmp"
	"net/http"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/session"
)

var errNoKey = fault.New(fault.Unauthenticated, "A key is required: an organization key or the worker key, as a Bearer token or in X-API-Key.")

// caller is who sends a request.
type caller struct {
	secret session.OrganizationKey // the key that was sent
	key    session.OrganizationKey // pays for launches; zero for the worker's own
	client string                  // IP address
}

// callerOf returns who sent a request with these headers. Error: Unauthenticated.
func (s *Service) callerOf(h http.Header) (caller, error) {
	secret := cmp.Or(h.Get("X-API-Key"), oapi.BearerToken(h))
	if secret == "" {
		return caller{}, errNoKey
	}
	who := caller{secret: session.NewOrganizationKey(secret)}
	if !s.WorkerKey(secret) {
		who.key = who.secret
	}
	return who, nil
}

func (c caller) equal(other caller) bool { return c.secret.Equal(other.secret) }
