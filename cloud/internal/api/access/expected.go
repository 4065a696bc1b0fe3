package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// expectedHeader names the organization that a client of a dashboard session expects to
// be active. All tabs of a browser share one session, so another tab may have activated
// another organization.
const expectedHeader = "X-Svc-Organization"

type expectedKey struct{}

// withExpectedOrganization returns a context with the values of the header, if any.
func withExpectedOrganization(ctx context.Context, r *http.Request) context.Context {
	values := r.Header[expectedHeader]
	if len(values) == 0 {
		return ctx
	}
	return context.WithValue(ctx, expectedKey{}, strings.Join(values, ", "))
}

// requireExpectedOrganization refuses a request that expects another active organization.
func (g *Authorizer) requireExpectedOrganization(ctx context.Context, caller auth.Caller) error {
	text, present := ctx.Value(expectedKey{}).(string)
	if !present {
		return nil
	}
	expected, err := uuid.Parse(text)
	if err != nil || len(text) != len(uuid.Nil.String()) {
		return fault.Invalid(fault.Detail{
			Field: expectedHeader, Code: fault.InvalidFormat, Received: text, Constraint: map[string]any{"format": "uuid"},
			Message: "must be the id of one organization, such as 019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02",
		})
	}
	if expected == caller.ActiveOrgID {
		return nil
	}
	message := fmt.Sprintf("The active organization is %s, not %s. Activate the organization that you want to use.", caller.ActiveOrgID, expected)
	return g.notActive(ctx, caller, message, fault.Detail{
		Field: expectedHeader, Code: fault.Custom, Received: expected,
		Message: "This is not the active organization. Activate it, or send the id of the active organization.",
	})
}
