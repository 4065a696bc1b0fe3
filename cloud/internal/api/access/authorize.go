package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// organizationParam is the path parameter that names the organization.
const organizationParam = "organizationId"

// Authorize determines the organization that an operation with roles acts on, and the
// user's role there. That is the session's active organization (specification 4.1,
// 5.3.1). A path that names another organization is refused with a Conflict, unless
// the document allows any organization of the user. Membership is looked up for each
// request, so a removed member loses access at once. For a user who is not a member
// the organization is NotFound.
func (g *Authorizer) Authorize(ctx context.Context, op oapi.Operation) (context.Context, error) {
	ctx, err := g.authorize(ctx, op)
	if err == nil && g.Requests != nil && !op.Again {
		orgID := auth.CallerFrom(ctx).OrgID
		if key, pending := auth.PendingKeyFrom(ctx); pending {
			orgID = key.OrgID
		}
		if orgID != uuid.Nil {
			g.Requests.Count(orgID)
		}
	}
	return ctx, err
}

func (g *Authorizer) authorize(ctx context.Context, op oapi.Operation) (context.Context, error) {
	ctx, err := g.verifyPendingKey(ctx, op)
	if err != nil {
		return ctx, err
	}
	caller := auth.CallerFrom(ctx)
	if err := requireScope(caller, op.Scope); err != nil {
		return nil, err
	}
	if len(op.Roles) == 0 {
		return ctx, nil
	}
	if caller.KeyID != uuid.Nil { // a key acts for its organization and has no role
		if text, named := op.Params[organizationParam]; named && text != caller.OrgID.String() {
			return nil, fault.Missing("organization")
		}
		return ctx, nil
	}
	if !op.AnyOrganization {
		if err := g.requireExpectedOrganization(ctx, caller); err != nil {
			return nil, err
		}
	}
	orgID, refusal := caller.ActiveOrgID, noActiveOrganization()
	if text, named := op.Params[organizationParam]; named {
		id, err := uuid.Parse(text)
		if err != nil {
			return ctx, nil // the request validation that follows reports the error
		}
		orgID, refusal = id, fault.Missing("organization")
		if caller.Token != nil && orgID != caller.Token.OrgID {
			return nil, refusal
		}
	}
	if orgID == uuid.Nil {
		return nil, refusal
	}
	role, err := g.role(ctx, orgID, caller)
	if err != nil {
		return nil, err
	}
	if role == "" {
		return nil, refusal
	}
	if !slices.Contains(op.Roles, role) {
		return nil, fault.New(fault.Forbidden, "Your role in the organization does not allow this.")
	}
	if orgID != caller.ActiveOrgID && !op.AnyOrganization {
		message := fmt.Sprintf("The active organization is %s. Activate %s first.", caller.ActiveOrgID, orgID)
		return nil, g.notActive(ctx, caller, message, fault.Detail{
			Field: organizationParam, Code: fault.Custom, Message: "This is not the active organization.", Received: orgID,
		})
	}
	caller.OrgID, caller.Role = orgID, auth.Role(role)
	switch {
	case caller.ServiceAccount != nil:
		ctx = org.WithServiceAccount(ctx, org.ServiceAccount{ID: caller.ServiceAccount.ID, Name: caller.ServiceAccount.Name})
	case caller.Token != nil:
		ctx = org.WithoutOwnership(ctx)
	}
	return auth.WithCaller(ctx, caller), nil
}

// role returns the caller's role in the organization, "" for none. A service account has
// the role of an admin in its organization; its scopes are the limit.
func (g *Authorizer) role(ctx context.Context, orgID uuid.UUID, caller auth.Caller) (string, error) {
	if caller.ServiceAccount == nil {
		return g.memberships.Role(ctx, orgID, caller.UserID)
	}
	if orgID != caller.ServiceAccount.OrgID {
		return "", nil
	}
	return string(auth.Admin), nil
}

// notActive refuses an organization that is not the active one. The error has the active
// one in its detail.
func (g *Authorizer) notActive(ctx context.Context, caller auth.Caller, message string, detail fault.Detail) error {
	if caller.ActiveOrgID == uuid.Nil {
		return noActiveOrganization()
	}
	role, err := g.role(ctx, caller.ActiveOrgID, caller)
	if err != nil {
		return err
	}
	if role == "" {
		return noActiveOrganization()
	}
	detail.Constraint = map[string]any{"activeOrganizationId": caller.ActiveOrgID}
	return fault.New(fault.Conflict, message, detail)
}

// noActiveOrganization is also the answer if the user is no longer a member of the
// active organization (specification 4.1).
func noActiveOrganization() *fault.Error {
	const message = "No active organization. Create an organization or activate one of yours."
	return fault.New(fault.Validation, message, fault.Detail{
		Field: "activeOrganizationId", Code: fault.Required, Message: "The session has no active organization.",
	})
}

// RequireSameOrigin is the middleware that applies the cookie's same-origin rule to
// requests without a credential. Otherwise a page of another site could sign its
// visitor in to a foreign account. It must follow the guard, which reports missing
// credentials.
func (g *Authorizer) RequireSameOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Request().Header
		if h.Get("Authorization") == "" && h.Get(keyHeader) == "" {
			if err := g.sameOrigin(c.Request()); err != nil {
				return err
			}
		}
		return next(c)
	}
}
