package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/contracttest"
)

const accessTokenTable = "testdata/access_tokens.md"

const accessTokenHeading = `# Access by access token

The answer of every operation for people to access tokens. Update with ` + "`go test ./cloud/internal/app -run TestAccess -update`" + `.
A column with a scope is a token of an owner with only this scope, and *service* that of a service account. The tokens of the
other columns have all scopes.
*Elsewhere*: a token of another organization; requests that name a resource name one of this organization.

The error code is shown if it is not the default code of the status, as in access.md.

`

// tokenScopes are the scopes of the document.
var tokenScopes = []string{"profiles:read", "profiles:write", "sessions:read", "keys:write", "members:write", "billing:read", "webhooks:read", "webhooks:write"}

// permits reports whether the token of the credential permits an operation with this
// scope.
func (c credential) permits(scope string) bool {
	resource, isRead := strings.CutSuffix(scope, ":read")
	return slices.Contains(c.scopes, scope) || isRead && slices.Contains(c.scopes, resource+":write")
}

// showToken shows the access token of access.sql with this name.
func showToken(name string) func(*call, http.Header) {
	return func(a *call, h http.Header) { h.Set("Authorization", "Bearer "+a.callerTenant()["token"]+name) }
}

// tokenCredentials returns the columns of the table of access tokens.
func tokenCredentials() (all []credential) {
	for _, scope := range tokenScopes {
		all = append(all, credential{name: scope, scheme: byBearer, user: "owner", role: "owner", scopes: []string{scope}, show: showToken(scope)})
	}
	for _, scope := range tokenScopes {
		all = append(all, credential{name: "service " + scope, scheme: byBearer, role: "admin", robot: true, scopes: []string{scope}, show: showToken("service " + scope)})
	}
	return append(all,
		credential{name: "service all", scheme: byBearer, role: "admin", robot: true, scopes: tokenScopes, show: showToken("service all")},
		credential{name: "service elsewhere", scheme: byBearer, role: "admin", robot: true, away: true, scopes: tokenScopes, show: showToken("service all")},
		credential{name: "admin", scheme: byBearer, user: "admin", role: "admin", scopes: tokenScopes, show: showToken("admin")},
		credential{name: "member", scheme: byBearer, user: "member", role: "member", scopes: tokenScopes, show: showToken("member")},
		credential{name: "elsewhere", scheme: byBearer, user: "owner", role: "owner", away: true, scopes: tokenScopes, show: showToken("all")},
		credential{name: "removed member", user: "former", former: true, show: showToken("former")},
		credential{name: "expired", user: "owner", show: showToken("expired")},
		credential{name: "in X-API-Key", user: "owner", show: func(a *call, h http.Header) { h.Set("X-API-Key", a.ours["token"]+"all") }},
		credential{name: "as cookie", user: "owner", show: func(a *call, h http.Header) { h.Set("Cookie", "svc_session="+a.ours["token"]+"all") }},
	)
}

// TestAccess_EveryScopeOnEveryOperation calls every operation that accepts a dashboard
// session with access tokens of each scope and of several users. It compares the answers
// with x-scope of the document and with testdata/access_tokens.md.
func TestAccess_EveryScopeOnEveryOperation(t *testing.T) {
	h := newTestEnv(t, map[string]string{"OIDC_ISSUER": signInProvider(t), "OIDC_CLIENT_ID": "svc", "OIDC_CLIENT_SECRET": "secret"})
	h.publish(t)
	operations := operationsOf(h.document.T())
	var forPeople []request
	for _, r := range requests {
		if operations[r.operation].schemes[byBearer] {
			forPeople = append(forPeople, r)
		}
	}
	columns := tokenCredentials()
	rows := h.askAll(t, operations, forPeople, columns)
	checkTable(t, accessTokenTable, render(accessTokenHeading, forPeople, columns, rows))
}

// closedToTokens contains the operations for people that refuse access tokens, with the
// reason.
var closedToTokens = map[string]string{
	"createSignInLink":          "signs in, with all rights of the user",
	"signOut":                   "acts on the dashboard session of the request",
	"getAuthSession":            "acts on the dashboard session of the request",
	"activateOrganization":      "acts on the dashboard session of the request",
	"updateUser":                "changes the account",
	"sendVerificationEmail":     "changes the account",
	"changePassword":            "changes the account",
	"listAuthSessions":          "shows and ends dashboard sessions",
	"endAuthSession":            "shows and ends dashboard sessions",
	"signOutEverywhere":         "shows and ends dashboard sessions",
	"listAccessTokens":          "a token must not create or revoke tokens",
	"createAccessToken":         "a token must not create or revoke tokens",
	"revokeAccessToken":         "a token must not create or revoke tokens",
	"listServiceAccounts":       "a token must not manage service accounts",
	"createServiceAccount":      "a token must not manage service accounts",
	"getServiceAccount":         "a token must not manage service accounts",
	"updateServiceAccount":      "a token must not manage service accounts",
	"deleteServiceAccount":      "a token must not manage service accounts",
	"listServiceAccountTokens":  "a token must not create or revoke tokens",
	"createServiceAccountToken": "a token must not create or revoke tokens",
	"revokeServiceAccountToken": "a token must not create or revoke tokens",
	"listOrganizations":         "a token belongs to one organization",
	"createOrganization":        "a token belongs to one organization",
	"acceptInvitation":          "a token belongs to one organization",
	"getOrganization":           "no scope for the organization",
	"updateOrganization":        "no scope for the organization",
	"deleteOrganization":        "deletes the organization",
	"listSecrets":               "no scope for secrets",
	"createSecret":              "no scope for secrets",
	"getSecret":                 "no scope for secrets",
	"updateSecret":              "no scope for secrets",
	"deleteSecret":              "no scope for secrets",
	"updateMachine":             "no scope for machines",
	"deleteMachine":             "no scope for machines",
	"listAuditEvents":           "no scope for the audit log",
	"startCheckout":             "spends money",
	"changePlan":                "spends money",
	"cancelSubscription":        "ends a contract",
	"resumeSubscription":        "spends money",
	"openBillingPortal":         "spends money",
	"addAddOn":                  "spends money",
	"removeAddOn":               "ends a contract",
}

// TestOpenAPI_EveryOperationForPeopleHasScopeOrReason also requires that only operations
// that change nothing have a scope for reading.
func TestOpenAPI_EveryOperationForPeopleHasScopeOrReason(t *testing.T) {
	used := map[string]bool{}
	for id, op := range operationsOf(contracttest.Load(t, "cloud.yaml").T()) {
		_, closed := closedToTokens[id]
		switch {
		case !op.schemes[byBearer]:
			if op.scope != "" || closed {
				t.Errorf("%s accepts no dashboard session and so no access token", id)
			}
		case closed == (op.scope != ""):
			t.Errorf("%s needs either x-scope or a reason in closedToTokens", id)
		case op.scope != "" && !slices.Contains(tokenScopes, op.scope):
			t.Errorf("%s has the unknown scope %q", id, op.scope)
		case strings.HasSuffix(op.scope, ":read") && op.method != http.MethodGet:
			t.Errorf("%s is a %s and has the scope %s", id, op.method, op.scope)
		}
		used[op.scope] = true
	}
	for _, scope := range tokenScopes {
		if !used[scope] {
			t.Errorf("no operation has the scope %s", scope)
		}
	}
}
