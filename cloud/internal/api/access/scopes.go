package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// requireScope returns Forbidden if the access token of a request, if any, does not have
// the scope of the operation. An operation without a scope refuses access tokens, so an
// operation is closed to them until its document names a scope.
func requireScope(token *auth.AccessToken, scope string) error {
	switch {
	case token == nil:
		return nil
	case scope == "":
		return fault.New(fault.Forbidden, "Access tokens are not allowed for this operation. Use a dashboard session.")
	case slices.Contains(token.Scopes, scope):
		return nil
	}
	if resource, isRead := strings.CutSuffix(scope, ":read"); isRead && slices.Contains(token.Scopes, resource+":write") {
		return nil
	}
	return fault.New(fault.Forbidden, fmt.Sprintf("The access token does not have the scope %s.", scope), fault.Detail{
		Field: "Authorization", Code: fault.Custom, Message: "Create an access token with this scope.", Constraint: map[string]any{"scope": scope},
	})
}
