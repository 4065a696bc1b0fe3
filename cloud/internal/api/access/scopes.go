package access

import (
	"fmt"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// requireScope returns Forbidden if the access token of a request, if any, or its service
// account does not have the scope of the operation. An operation without a scope refuses
// access tokens, so an operation is closed to them until its document names a scope.
func requireScope(caller auth.Caller, scope string) error {
	refusal, advice := "The access token does not have the scope %s.", "Create an access token with this scope."
	switch account := caller.ServiceAccount; {
	case caller.Token == nil:
		return nil
	case scope == "":
		return fault.New(fault.Forbidden, "Access tokens are not allowed for this operation. Use a dashboard session.")
	case !caller.Token.Permits(scope):
	case account == nil || account.Permits(scope):
		return nil
	default:
		refusal, advice = "The service account does not have the scope %s.", "Add this scope to the service account."
	}
	return fault.New(fault.Forbidden, fmt.Sprintf(refusal, scope), fault.Detail{
		Field: "Authorization", Code: fault.Custom, Message: advice, Constraint: map[string]any{"scope": scope},
	})
}
