package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// launchOperation is the operation that checks a recalled key itself, together with
// the slot, so that a launch does not wait twice.
const launchOperation = "authorizeLaunch"

// organizationParam is the path parameter that names the organization to act on.
const organizationParam = "organizationId"

// Authorize settles the organization that an operation with roles acts on, and
// the user's role there. That is the session's active one (specification 4.1,
// 5.3.1). A path that names another one is refused with a Conflict, unless the
// document allows any organization that the user is a member of. Membership is
// looked up each time, so who is removed is out at once. A stranger is told that
// the organization does not exist.
func (g *Authorizer) Authorize(ctx context.Context, op oapi.Operation) (context.Context, error) {
	ctx, err := g.authorize(ctx, op)
	if err == nil && g.Requests != nil {
		if orgID := auth.CallerFrom(ctx).OrgID; orgID != uuid.Nil {
			g.Requests.Count(orgID)
		}
	}
	return ctx, err
}

func (g *Authorizer) authorize(ctx context.Context, op oapi.Operation) (context.Context, error) {
	caller := auth.CallerFrom(ctx)
	if caller.Unchecked != "" && op.ID != launchOperation {
		var err error
		if ctx, err = g.authenticateKey(ctx, caller.Unchecked); err != nil {
			return nil, err
		}
	}
	if len(op.Roles) == 0 {
		return ctx, nil
	}
	if caller.KeyID != uuid.Nil { // it acts for its organization, and has no role
		if text, named := op.Params[organizationParam]; named && text != caller.OrgID.String() {
			return nil, fault.Missing("organization")
		}
		return ctx, nil
	}
	orgID, refusal := caller.ActiveOrgID, noActiveOrganization()
	if text, named := op.Params[organizationParam]; named {
		id, err := uuid.Parse(text)
		if err != nil {
			return ctx, nil // the check of the request comes next, and says what is wrong
		}
		orgID, refusal = id, fault.Missing("organization")
	}
	if orgID == uuid.Nil {
		return nil, refusal
	}
	role, err := g.memberships.Role(ctx, orgID, caller.UserID)
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
		return nil, g.notActive(ctx, caller, orgID)
	}
	caller.OrgID, caller.Role = orgID, auth.Role(role)
	return auth.WithCaller(ctx, caller), nil
}

// notActive refuses an organization of the caller's that is not the active one.
func (g *Authorizer) notActive(ctx context.Context, caller auth.Caller, orgID uuid.UUID) error {
	if caller.ActiveOrgID == uuid.Nil {
		return noActiveOrganization()
	}
	role, err := g.memberships.Role(ctx, caller.ActiveOrgID, caller.UserID)
	if err != nil {
		return err
	}
	if role == "" {
		return noActiveOrganization()
	}
	message := fmt.Sprintf("The active organization is %s. Activate %s first.", caller.ActiveOrgID, orgID)
	return fault.New(fault.Conflict, message, fault.Detail{
		Field: organizationParam, Code: fault.Custom, Message: "It is not the active organization.", Received: orgID,
		Constraint: map[string]any{"activeOrganizationId": caller.ActiveOrgID},
	})
}

// noActiveOrganization is also the answer when the user is no longer a member
// of the one that was active (specification 4.1).
func noActiveOrganization() *fault.Error {
	const message = "No active organization. Create one, or activate one that you are a member of."
	return fault.New(fault.Validation, message, fault.Detail{
		Field: "activeOrganizationId", Code: fault.Required, Message: "The session has no active organization.",
	})
}

// RejectInvalidKey is the middleware that keeps from who shows a bad key what else is
// wrong with the request. It comes before the guard.
func (g *Authorizer) RejectInvalidKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil {
			return nil
		}
		ctx := c.Request().Context()
		if secret := auth.CallerFrom(ctx).Unchecked; secret != "" {
			if _, bad := g.keys.Authenticate(ctx, secret); bad != nil {
				return bad
			}
		}
		return err
	}
}

// RequireSameOrigin is the middleware that holds requests without a credential to the
// rule of the cookie: else another site's page could sign its visitor in, to an
// account that is not the visitor's. It comes after the guard: where a
// credential is asked for, its absence is the answer.
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
