package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/contract"
)

// elsewhere are operations that come to the database only after an outside party
// did its part: their tests are beside its other ones.
var elsewhere = map[string]string{
	"completeOidcSignIn": "cloud/internal/rest: the provider confirms who it is",
	"receiveStripeEvent": "cloud/internal/rest: Stripe signs what it sends",
}

// TestADatabaseThatFailsIsOurFailure takes the tables away from the service,
// then the connections: every operation that says so answers 500, and says
// nothing of why. Those that need no database answer as ever.
func TestADatabaseThatFailsIsOurFailure(t *testing.T) {
	h := openHouse(t, map[string]string{"OIDC_ISSUER": signInProvider(t), "OIDC_CLIENT_ID": "svc", "OIDC_CLIENT_SECRET": "secret"})
	h.publish(t)
	hash, attempts, failed := cheapHash(t), []*attempt{}, map[string]bool{}
	h.eachOperation(t, func(t *testing.T, op operation, r request) {
		a := h.attempt(t, op, r, hash)
		a.prepare()
		attempts = append(attempts, a)
	})
	for _, outage := range []struct {
		name  string
		begin func(t *testing.T)
	}{
		{"without the tables, but those that say who calls", h.takeTables},
		{"without a connection", func(*testing.T) { _ = h.parts.pools.close() }},
	} {
		t.Run(outage.name, func(t *testing.T) {
			outage.begin(t)
			for _, a := range attempts {
				a.t, a.client = t, contract.New(t, h.document, nil)
				got := a.send(a.compose())
				if got.status == http.StatusInternalServerError {
					failed[a.op.OperationID] = true
				}
				if got.status == http.StatusInternalServerError && a.op.method != http.MethodHead &&
					got.body != `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something went wrong on our side."}}` {
					t.Errorf("%s says %s", a.op.OperationID, got.body)
				}
			}
		})
	}
	for _, a := range attempts {
		id := a.op.OperationID
		if _, there := elsewhere[id]; failed[id] != documents(a.op, http.StatusInternalServerError) && !there {
			t.Errorf("%s: answered 500: %v, which the document does not say", id, failed[id])
		}
	}
}

// takeTables leaves the service only the tables that say who calls.
func (h *house) takeTables(t *testing.T) {
	t.Helper()
	owner := dbtest.Open(t, h.dsn, pg.Options{})
	var others []string
	err := owner.SelectContext(t.Context(), &others, `
		SELECT quote_ident(tablename) FROM pg_tables
		WHERE schemaname = 'public' AND tablename NOT IN ('auth_sessions', 'users', 'memberships', 'api_keys')`)
	if err != nil {
		t.Fatal(err)
	}
	owner.MustExecContext(t.Context(), `REVOKE ALL ON `+strings.Join(others, ", ")+` FROM `+pg.AppRole)
}

func TestTheHealthOfACloudWithoutItsDatabase(t *testing.T) {
	h := openHouse(t, nil)
	if err := h.parts.pools.close(); err != nil {
		t.Fatal(err)
	}
	a := h.attempt(t, operationsOf(h.document.T())["getCloudHealth"], request{}, "")
	a.free = tenant{}
	if got := a.send(a.compose()); got.status != http.StatusServiceUnavailable {
		t.Errorf("answers %s %s", got, got.body)
	}
}
