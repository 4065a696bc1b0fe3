package app

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/contracttest"
)

// TestLaunch_DoesNotNeedTenantConnections takes all connections except those for
// launches, as blocked organizations would, and then launches.
func TestLaunch_DoesNotNeedTenantConnections(t *testing.T) {
	h := newTestEnv(t, nil)
	var launches []*call
	h.eachOperation(t, func(t *testing.T, op operation, r request) {
		if op.OperationID == "authorizeLaunch" || op.OperationID == "getCloudHealth" || op.OperationID == "endProfileSession" {
			a := h.attempt(t, op, r, cheapHash(t))
			a.prepare()
			launches = append(launches, a)
		}
	})
	for _, pool := range []*sqlx.DB{h.parts.pools.tenants, h.parts.pools.system} {
		for range pool.Stats().MaxOpenConnections {
			conn, err := pool.Connx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
	}
	if len(launches) != 3 {
		t.Fatalf("%d operations", len(launches))
	}
	for _, a := range launches {
		a.t, a.client = t, contracttest.New(t, h.document, nil)
		a.client.Timeout = 10 * time.Second
		if got := a.send(a.compose()); got.status != http.StatusOK {
			t.Errorf("%s: got %s %s", a.op.OperationID, got, got.body)
		}
	}
}

func TestConnections_MatchConfigurationPage(t *testing.T) {
	text, err := os.ReadFile("../../CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	if tenantsOpen+systemOpen+launchesOpen+configsOpen != 48 || !strings.Contains(string(text), "up to 48 connections") {
		t.Error("cloud/CONFIGURATION.md states a different number of connections")
	}
}
