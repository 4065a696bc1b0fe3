package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
)

// elsewhere lists operations, and statuses of operations, that depend on an external
// party. Other tests cover them.
var elsewhere = map[string]string{
	"completeOidcSignIn": "cloud/internal/api/rest: needs an answer of the provider",
	"receiveStripeEvent": "cloud/internal/api/rest: needs a signature of Stripe",

	"startOidcSignIn 503":     "cloud/internal/api/rest: the provider cannot be reached",
	"checkCloudReadiness 503": "TestReadiness_WithoutDatabase: the answer is cached for a second",
}

// TestOperations_AnswerWhenDatabaseFails first revokes the service's access to tables,
// which is an internal error (500), and then stops the connections to the server, which
// is an outage (503 with Retry-After). Every operation that documents the status must
// return it without disclosing the cause. Operations that need no database must not be
// affected.
func TestOperations_AnswerWhenDatabaseFails(t *testing.T) {
	dsn, cut := relay(t, dbtest.NewDSN(t))
	h := newTestEnv(t, map[string]string{
		"DATABASE_URL": dsn, "OIDC_ISSUER": signInProvider(t), "OIDC_CLIENT_ID": "svc", "OIDC_CLIENT_SECRET": "secret",
		"SIGN_UP": "", // depends on the users in the database
	})
	h.publish(t)
	hash, attempts := cheapHash(t), []*call{}
	h.eachOperation(t, func(t *testing.T, op operation, r request) {
		a := h.attempt(t, op, r, hash)
		a.prepare()
		attempts = append(attempts, a)
	})
	failed := map[int]map[string]bool{http.StatusInternalServerError: {}, http.StatusServiceUnavailable: {}}
	for _, failure := range []struct {
		name   string
		status int
		begin  func(t *testing.T)
	}{
		{"without the tables, but those that say who calls", http.StatusInternalServerError, h.revokeTable},
		{"without any table", http.StatusInternalServerError, h.revokeAllTables},
		{"without a server", http.StatusServiceUnavailable, func(*testing.T) {
			cut()
			time.Sleep(databasePeriod) // the result of the last check is shared for that long
		}},
	} {
		t.Run(failure.name, func(t *testing.T) {
			failure.begin(t)
			for _, a := range attempts {
				a.t, a.client = t, contracttest.New(t, h.document, nil)
				got := a.send(a.compose())
				if got.status != failure.status {
					continue
				}
				failed[got.status][a.op.OperationID] = true
				if want := failureBodies[got.status]; a.op.method != http.MethodHead && a.op.OperationID != "getCloudHealth" && a.op.OperationID != "checkCloudReadiness" && got.body != want {
					t.Errorf("%s: got %s, want %s", a.op.OperationID, got.body, want)
				}
				if got.status == http.StatusServiceUnavailable && got.retryAfter == "" {
					t.Errorf("%s: no Retry-After", a.op.OperationID)
				}
			}
		})
	}
	for _, a := range attempts {
		id := a.op.OperationID
		for status, operations := range failed {
			_, there := elsewhere[id]
			if _, tested := elsewhere[fmt.Sprintf("%s %d", id, status)]; operations[id] != documents(a.op, status) && !there && !tested {
				t.Errorf("%s: returned %d: %v, which differs from the document", id, status, operations[id])
			}
		}
	}
}

var failureBodies = map[int]string{
	http.StatusInternalServerError: `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something went wrong on our side."}}`,
	http.StatusServiceUnavailable:  `{"success":false,"error":{"code":"EXTERNAL_SERVICE_ERROR","message":"The database cannot be reached. Try again later."}}`,
}

// relay returns the address of a database through a TCP relay. cut closes all
// connections and refuses new ones.
func relay(t *testing.T, dsn string) (through string, cut func()) {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, server := "tcp", address.Host
	query := address.Query()
	if sockets := query.Get("host"); sockets != "" {
		port := query.Get("port")
		if port == "" {
			port = "5432"
		}
		network, server = "unix", filepath.Join(sockets, ".s.PGSQL."+port)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	address.Host, address.RawQuery = listener.Addr().String(), query.Encode()
	var ended sync.WaitGroup
	open := make(chan struct{})
	ended.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial(network, server)
			if err != nil {
				client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, behind}, {behind, client}} {
				ended.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					client.Close()
					behind.Close()
				})
			}
			ended.Go(func() {
				<-open
				client.Close()
				behind.Close()
			})
		}
	})
	cut = sync.OnceFunc(func() {
		listener.Close()
		close(open)
		ended.Wait()
	})
	t.Cleanup(cut)
	return address.String(), cut
}

// revokeTable revokes access to all tables except those that identify the caller.
func (h *testEnv) revokeTable(t *testing.T) {
	t.Helper()
	h.revoke(t, `tablename NOT IN ('auth_sessions', 'users', 'memberships', 'api_keys')`)
}

// revokeAllTables revokes access to all tables.
func (h *testEnv) revokeAllTables(t *testing.T) {
	t.Helper()
	h.revoke(t, `true`)
}

func (h *testEnv) revoke(t *testing.T, which string) {
	t.Helper()
	owner := dbtest.Open(t, h.dsn, pg.Options{})
	var tables []string
	err := owner.SelectContext(t.Context(), &tables, `SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND `+which)
	if err != nil {
		t.Fatal(err)
	}
	owner.MustExecContext(t.Context(), `REVOKE ALL ON `+strings.Join(tables, ", ")+` FROM `+pg.AppRole)
}

func TestHealth_WithoutDatabase(t *testing.T) {
	h := newTestEnv(t, nil)
	if err := h.parts.pools.closers.Close(); err != nil {
		t.Fatal(err)
	}
	a := h.attempt(t, operationsOf(h.document.T())["getCloudHealth"], request{}, "")
	a.free = tenant{}
	if got := a.send(a.compose()); got.status != http.StatusServiceUnavailable {
		t.Errorf("got %s %s, want 503", got, got.body)
	}
}

// TestReadiness_WithoutDatabase checks a replica that has lost its connections, and a
// replica with a read-only database.
func TestReadiness_WithoutDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(t *testing.T, h *testEnv)
		code  string
	}{
		"gone": {func(t *testing.T, h *testEnv) {
			if err := h.parts.pools.closers.Close(); err != nil {
				t.Fatal(err)
			}
		}, "database_unreachable"},
		"read only": {func(t *testing.T, h *testEnv) {
			owner := dbtest.Open(t, h.dsn, pg.Options{})
			var database string
			if err := owner.GetContext(t.Context(), &database, `SELECT quote_ident(current_database())`); err != nil {
				t.Fatal(err)
			}
			owner.MustExecContext(t.Context(), `ALTER DATABASE `+database+` SET default_transaction_read_only = on`)
			h.parts.pools.launches.SetMaxIdleConns(0) // the next connection is a new one
		}, "database_read_only"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestEnv(t, nil)
			ask := func(operation string) outcome {
				a := h.attempt(t, operationsOf(h.document.T())[operation], request{}, "")
				a.free = tenant{}
				return a.send(a.compose())
			}
			c.begin(t, h)
			if got := ask("checkCloudReadiness"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, `"constraint":{"reason":"`+c.code+`"}`) {
				t.Errorf("readiness: got %s %s", got, got.body)
			}
			if got := ask("checkCloudLiveness"); got.status != http.StatusOK {
				t.Errorf("liveness: got %s %s, want 200 (a restart would not help)", got, got.body)
			}
		})
	}
}

// TestReadiness_FailsBeforePortCloses stops a cloud: for SHUTDOWN_DELAY it still
// answers requests, but is not ready.
func TestReadiness_FailsBeforePortCloses(t *testing.T) {
	port := testenv.FreePort(t)
	const delay = 2 * time.Second
	config := Config{
		Host: "127.0.0.1", Port: port, DatabaseURL: dbtest.NewDSN(t), DataDir: t.TempDir(), ShutdownDelay: delay,
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, port, done)
	ask := func(path string) int {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	if got := ask("/readyz"); got != http.StatusOK {
		t.Fatalf("ready: %d", got)
	}
	stop()
	began := time.Now()
	for ask("/readyz") == http.StatusOK {
		if time.Since(began) > delay {
			t.Fatal("the cloud is still ready")
		}
	}
	if readiness, plans := ask("/readyz"), ask("/v1/plans"); readiness != http.StatusServiceUnavailable || plans != http.StatusOK {
		t.Errorf("during shutdown: /readyz returned %d and /v1/plans %d, want 503 and 200", readiness, plans)
	}
	if err := <-done; err != nil || time.Since(began) < delay {
		t.Errorf("Serve returned after %v: %v", time.Since(began), err)
	}
	if got := ask("/livez"); got != 0 {
		t.Errorf("after shutdown: got status %d, want none", got)
	}
}

// TestHealth_ChecksDatabaseAcceptsWrites: the health check fails exactly while the
// database is read-only.
func TestHealth_ChecksDatabaseAcceptsWrites(t *testing.T) {
	h := newTestEnv(t, nil)
	health := func() outcome {
		time.Sleep(databasePeriod) // the result is shared for that long
		a := h.attempt(t, operationsOf(h.document.T())["getCloudHealth"], request{}, "")
		a.free = tenant{}
		return a.send(a.compose())
	}
	owner := dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 1})
	readOnly := func(on bool) {
		owner.MustExec(`SET default_transaction_read_only = off`)
		owner.MustExec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ` + strconv.FormatBool(on) + `', current_database()); END $$`)
		owner.MustExec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
	readOnly(true)
	got := health()
	for range h.parts.pools.launches.Stats().MaxOpenConnections { // the closed connections fail first
		if !strings.Contains(got.body, "cannot be reached") {
			break
		}
		got = health()
	}
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "read-only") || got.retryAfter == "" {
		t.Errorf("read-only: %s %s", got, got.body)
	}
	owner.MustExec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$`)
	if got := health(); got.status != http.StatusOK {
		t.Errorf("writable again: %s %s", got, got.body)
	}
}
