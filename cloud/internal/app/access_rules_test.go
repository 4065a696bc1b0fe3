package app

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/contracttest"
)

// outcome is the result of a request.
type outcome struct {
	status int
	code   string // "" for a success or a response without a body
	body   string

	retryAfter string
}

// defaultCodes are the error codes by status (specification 7.1).
var defaultCodes = map[int]string{
	http.StatusBadRequest:   "VALIDATION_ERROR",
	http.StatusUnauthorized: "AUTHENTICATION_ERROR",
	http.StatusForbidden:    "AUTHORIZATION_ERROR",
	http.StatusNotFound:     "RESOURCE_NOT_FOUND",
	http.StatusConflict:     "RESOURCE_CONFLICT",
}

// String returns the status, followed by the error code if it is not the default code
// of the status.
func (o outcome) String() string {
	if o.code == "" || o.code == defaultCodes[o.status] {
		return fmt.Sprint(o.status)
	}
	return fmt.Sprintf("%d %s", o.status, o.code)
}

func (o outcome) succeeded() bool { return o.status < http.StatusBadRequest }

// check compares an outcome with the rules. It returns the problem, or "". anonymous is
// the outcome of the same request without a credential.
func (a *call) check(got, anonymous outcome) string {
	want, why := a.rule()
	leaked := slices.DeleteFunc(a.ours.leaks(got.body, a.sent), func(name string) bool {
		return a.credential.former && (name == "formerId" || name == "mark") // the caller
	})
	switch {
	case want == 0 && !got.succeeded():
		return "want success: " + why
	case want != 0 && (got.status != want || got.code != defaultCodes[want] && a.op.method != http.MethodHead):
		return fmt.Sprintf("want %d %s: %s", want, defaultCodes[want], why)
	case len(a.op.schemes) == 0 && got.String() != anonymous.String():
		return "want the answer of the request without a credential (the operation is public): " + anonymous.String()
	case len(a.op.schemes) > 0 && (a.credential.away || a.credential.former) && len(leaked) > 0:
		return fmt.Sprintf("the response discloses %s to another organization", leaked)
	case !got.succeeded() && a.changed():
		return "the refused request changed the organization"
	case len(a.op.schemes) > 0 && (a.credential.away || a.credential.former) && a.changed():
		return "a caller of another organization changed the organization"
	}
	return ""
}

// rule returns the status that the request must get, and why; 0 means success. It
// depends only on the document, the credential and the request.
func (a *call) rule() (status int, why string) {
	c, roles := a.credential, a.op.roles
	role := c.role
	if a.request.roles != nil {
		roles = a.request.roles
		if c.scopes != nil && role == "owner" {
			role = "admin" // an access token changes members at most as an admin
		}
	}
	own := !c.away || !a.ours.sees(a.sent) // the request names only resources of the caller's organization
	inPath := strings.Contains(a.op.path, "{organizationId}")
	switch {
	case len(a.op.schemes) > 0 && !a.op.schemes[c.scheme]:
		return http.StatusUnauthorized, "the operation does not accept this kind of credential"
	case a.request.gets != 0:
		return a.request.gets, "the status is the same for all callers"
	case c.scopes != nil && !c.permits(a.op.scope):
		return http.StatusForbidden, "the access token does not have the scope of the operation"
	case len(a.op.roles) > 0 && (c.idle && !a.op.anyOrg || c.former && !inPath):
		return http.StatusBadRequest, "no organization is active"
	case c.robot && strings.Contains(a.request.path, "{callerId}"):
		return http.StatusNotFound, "a service account is not a member"
	case a.request.mine != "" && (c.away || c.user != a.request.mine):
		return http.StatusNotFound, "the resource belongs to another user"
	case len(a.op.schemes) == 0, a.request.blind, len(a.op.roles) == 0 && own:
		return 0, "no role is required"
	case c.beside && inPath && !a.op.anyOrg:
		return http.StatusConflict, "another organization is active"
	case !own, c.former, c.beside && !inPath && a.ours.sees(a.sent):
		return http.StatusNotFound, "the resource belongs to another organization"
	case c.scheme == byKey:
		return 0, "a key acts for its organization"
	case c.away && slices.Contains(roles, "owner"), slices.Contains(roles, role):
		return 0, "the role is permitted"
	default:
		return http.StatusForbidden, "the role is not permitted"
	}
}

// TestOpenAPI_CredentialsMatchSpecification compares the security and roles of the
// document with the specification (4.1, 4.2, 5.1).
func TestOpenAPI_CredentialsMatchSpecification(t *testing.T) {
	document := contracttest.Load(t, "cloud.yaml")
	public := regexp.MustCompile(`^(GET /(health|livez|readyz|v1/plans|v1/auth/options|v1/auth/oidc/\w+|v1/profile-data/\{directory\}/deleted|account/[a-z-]+)` +
		`|POST /v1/(contact|webhooks/stripe|auth/(sign-up|sign-in|sign-in/link|verify-email|password/forgot|password/reset)))$`)
	both := regexp.MustCompile(`^GET /v1/(license/(slots/\{slotId\}|events|usage(/days)?)|machines|chromium/releases|profiles/\{profileId\}/data/versions)$`) // for workers and for people
	workers := regexp.MustCompile(`^(\w+ /v1/(license|chromium)/.+|\w+ /v1/profiles/\{profileId\}/(config|sessions.*)|POST /v1/profiles/\{profileId\}/data/(versions|lease)|POST /v1/secrets/\{secretId\}/use)$`)
	for id, op := range operationsOf(document.T()) {
		route, want := op.method+" "+op.path, []string{byBearer, byCookie}
		switch {
		case public.MatchString(route):
			want = nil
		case route == "GET /metrics":
			want = []string{byMetricsToken}
		case both.MatchString(route):
			want = slices.Sorted(slices.Values([]string{byBearer, byCookie, byKey}))
		case workers.MatchString(route):
			want = []string{byKey}
		}
		if got := slices.Sorted(maps.Keys(op.schemes)); !slices.Equal(got, want) {
			t.Errorf("%s accepts the credentials %q, want %q", id, got, want)
		}
		if strings.HasPrefix(op.path, "/v1/billing/") && !slices.Equal(op.roles, []string{"owner", "admin"}) {
			t.Errorf("%s permits the roles %q, want owner and admin", id, op.roles)
		}
		scoped := strings.Contains(op.path, "{organizationId}") || regexp.MustCompile(`^/v1/(profiles|secrets|webhooks/endpoints|events|sessions|machines|billing)\b`).MatchString(op.path)
		if scoped && want != nil && want[0] != byKey && len(op.roles) == 0 {
			t.Errorf("%s acts on an organization but requires no role", id)
		}
	}
}

// prepareChecksum prepares a query that hashes all rows of the organization $1, in all
// tables. To plan it takes longer than to run it.
func prepareChecksum(t *testing.T, h *testEnv) *sqlx.Stmt {
	t.Helper()
	var sums []string
	err := h.all.SelectContext(t.Context(), &sums, `
		SELECT format('SELECT %L || md5(string_agg(r::text, E''\n'' ORDER BY r::text)) AS sum FROM %I r WHERE %I = $1', table_name, table_name, column_name)
		FROM information_schema.columns
		WHERE table_schema = 'public' AND (column_name = 'organization_id' OR table_name = 'organizations' AND column_name = 'id')
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	query := `SELECT string_agg(sum, E'\n' ORDER BY sum) FROM (` + strings.Join(sums, " UNION ALL ") + `) AS sums`
	prepared, err := h.all.PreparexContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prepared.Close() })
	return prepared
}

func (a *call) checksum() string {
	a.t.Helper()
	var sum string
	a.must(a.checksumOf.GetContext(a.t.Context(), &sum, a.ours["organizationId"]))
	return sum
}
