package app

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// outcome is how a request was answered.
type outcome struct {
	status int
	code   string // "" for a success, and for what has no body
	body   string

	retryAfter string
}

// usual is the code of each status (specification 7.1).
var usual = map[int]string{
	http.StatusBadRequest:   "VALIDATION_ERROR",
	http.StatusUnauthorized: "AUTHENTICATION_ERROR",
	http.StatusForbidden:    "AUTHORIZATION_ERROR",
	http.StatusNotFound:     "RESOURCE_NOT_FOUND",
	http.StatusConflict:     "RESOURCE_CONFLICT",
}

// String is the status, and the code where it is not the usual one.
func (o outcome) String() string {
	if o.code == "" || o.code == usual[o.status] {
		return fmt.Sprint(o.status)
	}
	return fmt.Sprintf("%d %s", o.status, o.code)
}

func (o outcome) succeeded() bool { return o.status < http.StatusBadRequest }

// check holds an answer to the rules; it returns what is wrong, or nothing. The
// other is the answer to the same request without a credential.
func (a *call) check(got, anonymous outcome) string {
	want, why := a.rule()
	leaked := slices.DeleteFunc(a.ours.leaks(got.body, a.sent), func(name string) bool {
		return a.credential.former && (name == "formerId" || name == "mark") // who the caller is
	})
	switch {
	case want == 0 && !got.succeeded():
		return "should be let through: " + why
	case want != 0 && (got.status != want || got.code != usual[want] && a.op.method != http.MethodHead):
		return fmt.Sprintf("should be %d %s: %s", want, usual[want], why)
	case len(a.op.schemes) == 0 && got.String() != anonymous.String():
		return "without a credential it is " + anonymous.String() + ", and the operation is public"
	case len(a.op.schemes) > 0 && (a.credential.away || a.credential.former) && len(leaked) > 0:
		return fmt.Sprintf("it tells somebody outside about %s", leaked)
	case !got.succeeded() && a.changed:
		return "what was refused changed the organization"
	case len(a.op.schemes) > 0 && (a.credential.away || a.credential.former) && a.changed:
		return "somebody outside changed the organization"
	}
	return ""
}

// rule is the status that a request must get, and why; 0 for a success. It knows
// nothing but the document, the credential, and what the request declares.
func (a *call) rule() (status int, why string) {
	c, roles := a.credential, a.op.roles
	if a.request.roles != nil {
		roles = a.request.roles
	}
	own := !c.away || !a.ours.in(a.sent) // what the request names
	inPath := strings.Contains(a.op.path, "{organizationId}")
	switch {
	case len(a.op.schemes) > 0 && !a.op.schemes[c.scheme]:
		return http.StatusUnauthorized, "the credential is none of those in security"
	case a.request.gets != 0:
		return a.request.gets, "everybody gets that"
	case a.request.mine != "" && (c.away || c.user != a.request.mine):
		return http.StatusNotFound, "it is somebody else's"
	case len(a.op.schemes) == 0, a.request.blind, len(a.op.roles) == 0 && own:
		return 0, "no role is asked for"
	case len(a.op.roles) > 0 && (c.idle && !a.op.anyOrg || c.former && !inPath):
		return http.StatusBadRequest, "no organization is active"
	case c.beside && inPath && !a.op.anyOrg:
		return http.StatusConflict, "another organization is active"
	case !own, c.former, c.beside && !inPath && a.ours.in(a.sent):
		return http.StatusNotFound, "it is another organization's"
	case c.scheme == byKey:
		return 0, "a key acts for its organization"
	case c.away && slices.Contains(roles, "owner"), slices.Contains(roles, c.role):
		return 0, "the role is one of those that may"
	default:
		return http.StatusForbidden, "the role is none of those that may"
	}
}

// TestOpenAPI_CredentialsMatchSpecification holds what the rules
// are read from to the specification (4.1, 4.2, 5.1).
func TestOpenAPI_CredentialsMatchSpecification(t *testing.T) {
	document, err := bundled.Load(t.Context(), openapi.Files, "cloud.yaml")
	if err != nil {
		t.Fatal(err)
	}
	public := regexp.MustCompile(`^(GET /(health|livez|readyz|v1/plans|v1/auth/oidc/\w+|account/[a-z-]+)` +
		`|POST /v1/(contact|webhooks/\w+|auth/(sign-up|sign-in|verify-email|password/forgot|password/reset)))$`)
	both := regexp.MustCompile(`^GET /v1/license/(slots/\{slotId\}|events|usage)$`) // why a launch was refused, for people too
	workers := regexp.MustCompile(`^(\w+ /v1/(license|chromium)/.+|\w+ /v1/profiles/\{profileId\}/(config|sessions.*))$`)
	for id, op := range operationsOf(document.T()) {
		route, want := op.method+" "+op.path, []string{byBearer, byCookie}
		switch {
		case public.MatchString(route):
			want = nil
		case both.MatchString(route):
			want = slices.Sorted(slices.Values([]string{byBearer, byCookie, byKey}))
		case workers.MatchString(route):
			want = []string{byKey}
		}
		if got := slices.Sorted(maps.Keys(op.schemes)); !slices.Equal(got, want) {
			t.Errorf("%s asks for %q, want %q", id, got, want)
		}
		if strings.HasPrefix(op.path, "/v1/billing/") && !slices.Equal(op.roles, []string{"owner", "admin"}) {
			t.Errorf("%s is for %q: billing is for owners and admins", id, op.roles)
		}
		scoped := strings.Contains(op.path, "{organizationId}") || regexp.MustCompile(`^/v1/(profiles|sessions|billing)\b`).MatchString(op.path)
		if scoped && want != nil && want[0] != byKey && len(op.roles) == 0 {
			t.Errorf("%s acts on an organization and asks for no role in it", id)
		}
	}
}

// checksumSQL sums up all rows of an organization ($1), of every table that
// has such rows.
func checksumSQL(t *testing.T, h *testEnv) string {
	t.Helper()
	var sums []string
	err := h.all.SelectContext(t.Context(), &sums, `
		SELECT format('SELECT %L || md5(string_agg(r::text, E''\n'' ORDER BY r::text)) AS sum FROM %I r WHERE %I = $1', table_name, table_name, column_name)
		FROM information_schema.columns
		WHERE table_schema = 'public' AND (column_name IN ('organization_id', 'organization_id') OR table_name = 'organizations' AND column_name = 'id')
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	return `SELECT string_agg(sum, E'\n' ORDER BY sum) FROM (` + strings.Join(sums, " UNION ALL ") + `) AS sums`
}

func (a *call) checksum() string {
	a.t.Helper()
	var sum string
	a.must(a.house.all.GetContext(a.t.Context(), &sum, a.everything, a.ours["organizationId"]))
	return sum
}
