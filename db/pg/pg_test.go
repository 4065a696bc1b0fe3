package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

func exec(t *testing.T, db sqlx.Execer, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestOpen_DSNParametersOverrideTimeouts(t *testing.T) {
	dsn := dbtest.NewEmptyDSN(t)
	if strings.Contains(dsn, "?") {
		dsn += "&lock_timeout=1234"
	} else {
		dsn += "?lock_timeout=1234"
	}
	db := dbtest.Open(t, dsn, pg.Options{ApplicationName: "tester", Statement: time.Second, IdleInTx: -1})
	for name, want := range map[string]string{
		"statement_timeout": "1s", "lock_timeout": "1234ms", "idle_in_transaction_session_timeout": "0",
		"application_name": "tester", "timezone": "UTC",
	} {
		var got string
		if err := db.Get(&got, `SELECT current_setting($1)`, name); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	_, err := db.Exec(`SELECT pg_sleep(5)`)
	if pq.As(err, pqerror.QueryCanceled) == nil || pg.IsUnavailable(err) {
		t.Errorf("a long statement: %v, want it cancelled, and not unavailable", err)
	}
}

func TestOpen_WaitsForServer(t *testing.T) {
	address, err := url.Parse(dbtest.NewEmptyDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := reserved.Addr().String()
	reserved.Close()
	behind, network := address.Host, "tcp"
	if sockets := address.Query().Get("host"); sockets != "" {
		behind, network = filepath.Join(sockets, ".s.PGSQL.5432"), "unix"
	}
	through := url.URL{Scheme: "postgres", User: address.User, Host: front, Path: address.Path, RawQuery: "sslmode=disable"}

	began := time.Now()
	_, err = pg.Open(t.Context(), through.String(), pg.Options{Wait: 200 * time.Millisecond})
	if !pg.IsUnavailable(err) || time.Since(began) < 150*time.Millisecond {
		t.Errorf("without a server: %v after %v, want unavailable after 200 ms", err, time.Since(began))
	}
	const late = 300 * time.Millisecond
	time.AfterFunc(late, func() { forward(t, front, network, behind) })
	began = time.Now()
	db, err := pg.Open(t.Context(), through.String(), pg.Options{Wait: 20 * time.Second})
	if err != nil {
		t.Fatalf("server that starts late: %v", err)
	}
	db.Close()
	if took := time.Since(began); took < late {
		t.Errorf("connected after %v, before the server started", took)
	}
}

// forward relays connections on front to a real server until the test ends.
func forward(t *testing.T, front, network, behind string) {
	listener, err := net.Listen("tcp", front)
	if err != nil {
		t.Errorf("listen: %v", err)
		return
	}
	context.AfterFunc(t.Context(), func() { listener.Close() })
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			server, err := net.Dial(network, behind)
			if err != nil {
				return
			}
			defer server.Close()
			go io.Copy(server, client)
			io.Copy(client, server)
		}()
	}
}

func TestOpen_FailsAtOnceOnPermanentErrors(t *testing.T) {
	address, err := url.Parse(dbtest.NewEmptyDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/missing"
	began := time.Now()
	_, err = pg.Open(t.Context(), address.String(), pg.Options{Wait: 20 * time.Second})
	if pq.As(err, pqerror.InvalidCatalogName) == nil || time.Since(began) > 5*time.Second {
		t.Errorf("missing database: %v after %v, want an immediate error", err, time.Since(began))
	}
}

func TestErrors_Kinds(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	exec(t, db, `CREATE TABLE a (id int CONSTRAINT a_key PRIMARY KEY, n int CONSTRAINT a_n CHECK (n > 0))`)
	exec(t, db, `CREATE TABLE b (a int CONSTRAINT b_a REFERENCES a)`)
	exec(t, db, `INSERT INTO a VALUES (1, 1)`)
	kinds := map[string]func(error, string) bool{"unique": pg.IsUnique, "foreign key": pg.IsForeignKey}
	for _, c := range []struct{ query, kind, constraint string }{
		{`INSERT INTO a VALUES (1, 1)`, "unique", "a_key"},
		{`INSERT INTO b VALUES (2)`, "foreign key", "b_a"},
		{`INSERT INTO a VALUES (2, 0)`, "none", ""},
		{`SELECT 1/0`, "none", ""},
	} {
		_, err := db.Exec(c.query)
		if err == nil {
			t.Fatalf("%s succeeded", c.query)
		}
		err = fmt.Errorf("wrapped: %w", err)
		for kind, is := range kinds {
			if got := is(err, ""); got != (kind == c.kind) {
				t.Errorf("%s: %s = %v", c.query, kind, got)
			}
			if got := is(err, c.constraint); got != (kind == c.kind) {
				t.Errorf("%s: %s of %s = %v", c.query, kind, c.constraint, got)
			}
			if is(err, "other") {
				t.Errorf("%s: %s of another constraint", c.query, kind)
			}
		}
		if pg.IsUnavailable(err) {
			t.Errorf("%s: unavailable", c.query)
		}
	}
	if pg.IsUnique(nil, "") || pg.IsUnavailable(nil) || pg.IsUnavailable(errors.New("other")) {
		t.Error("nil or another error is classified")
	}
}

func TestIsUnavailable_TerminatedConnection(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var pid int
	if err := conn.GetContext(t.Context(), &pid, `SELECT pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `SELECT pg_terminate_backend($1, 5000)`, pid)
	if _, err := conn.ExecContext(t.Context(), `SELECT 1`); !pg.IsUnavailable(err) {
		t.Errorf("a terminated connection: %v, want unavailable", err)
	}
}

func counter(t *testing.T) *sqlx.DB {
	t.Helper()
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	exec(t, db, `CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)`)
	exec(t, db, `INSERT INTO counter VALUES (1, 0), (2, 0)`)
	return db
}

func value(t *testing.T, db *sqlx.DB) (n int) {
	t.Helper()
	if err := db.Get(&n, `SELECT sum(n) FROM counter`); err != nil {
		t.Fatal(err)
	}
	return n
}

func add(tx *sqlx.Tx, id int) error {
	_, err := tx.Exec(`UPDATE counter SET n = n + 1 WHERE id = $1`, id)
	return err
}

func TestInTx_CommitsOrRollsBack(t *testing.T) {
	db := counter(t)
	if err := pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error { return add(tx, 1) }); err != nil {
		t.Fatal(err)
	}
	if n := value(t, db); n != 1 {
		t.Errorf("after a commit: %d, want 1", n)
	}
	mine := errors.New("mine")
	err := pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error { return errors.Join(add(tx, 1), mine) })
	if !errors.Is(err, mine) {
		t.Errorf("InTx = %v, want the function's own error", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error { add(tx, 1); panic("on purpose") })
	}()
	if n := value(t, db); n != 1 {
		t.Errorf("after an error and a panic: %d, want 1", n)
	}
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("%d connections are still in use", open)
	}
}

func TestInTx_RetriesDeadlocks(t *testing.T) {
	db := counter(t)
	var attempts atomic.Int32
	meet, committed := make(chan struct{}, 2), make(chan struct{})
	isBlocked := func() (blocked bool) {
		const query = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`
		if err := db.GetContext(t.Context(), &blocked, query); err != nil {
			t.Error(err)
		}
		return blocked || t.Failed()
	}
	var wg sync.WaitGroup
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		victim := order[0] == 1 // only this one looks for deadlocks
		wg.Go(func() {
			first := true
			err := pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
				attempts.Add(1)
				detect := "1min"
				if victim {
					detect = "10ms"
				}
				if victim && !first {
					<-committed // so that it meets no second deadlock
				}
				if _, err := tx.Exec("SET LOCAL deadlock_timeout = '" + detect + "'"); err != nil {
					return err
				}
				if err := add(tx, order[0]); err != nil {
					return err
				}
				if first { // both transactions hold their first row before either locks its second
					first = false
					meet <- struct{}{}
					for len(meet) < 2 || victim && !isBlocked() { // PostgreSQL looks for a deadlock once
						time.Sleep(time.Millisecond)
					}
				}
				return add(tx, order[1])
			})
			if err != nil {
				t.Errorf("InTx: %v", err)
			}
			if !victim {
				close(committed)
			}
		})
	}
	wg.Wait()
	if n := value(t, db); n != 4 || attempts.Load() != 3 {
		t.Errorf("sum %d after %d attempts, want 4 after 3", n, attempts.Load())
	}
}

func TestInTx_GivesUpAfterRetries(t *testing.T) {
	db := counter(t)
	attempts := 0
	err := pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		attempts++
		_, err := tx.Exec(`DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`)
		return err
	})
	if pq.As(err, pqerror.TRSerializationFailure) == nil || attempts != 4 {
		t.Errorf("InTx = %v after %d attempts, want the conflict after 4", err, attempts)
	}
}

func TestInTx_EndsWithContext(t *testing.T) {
	db := counter(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InTx(ctx, db, func(tx *sqlx.Tx) error {
		cancel()
		return add(tx, 1)
	})
	if err == nil || value(t, db) != 0 {
		t.Errorf("InTx = %v, the counter %d; want an error and 0", err, value(t, db))
	}
}

// A statement fails if the server stops responding, even if its context never ends.
func TestStatement_FailsWhenServerStopsResponding(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{MaxOpen: 1, Statement: 100 * time.Millisecond})
	var backend int
	if err := db.Get(&backend, `SELECT pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(backend, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { syscall.Kill(backend, syscall.SIGCONT) })
	defer resume()
	began := time.Now()
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), `SELECT 1`)
	if took := time.Since(began); !pg.IsUnavailable(err) || took > 20*time.Second {
		t.Errorf("after %s: %v, want unavailable", took, err)
	}
	resume()
	exec(t, db, `SELECT 1`) // on a new connection
}

func TestOpen_ConnectTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, but no process reads from them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	_, err = pg.Open(t.Context(), "postgres://"+silent.Addr().String()+"/a?sslmode=disable",
		pg.Options{Connect: 50 * time.Millisecond, Statement: 10 * time.Second, Wait: -1})
	if took := time.Since(began); !pg.IsUnavailable(err) || took > 4*time.Second {
		t.Errorf("after %s: %v, want unavailable after 50 ms", took, err)
	}
}

func TestPreferIndexes_AvoidsSequentialScans(t *testing.T) {
	dsn := dbtest.NewEmptyDSN(t)
	db := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	exec(t, db, `CREATE TABLE things (id int PRIMARY KEY)`)
	exec(t, db, `INSERT INTO things VALUES (1)`)
	exec(t, db, `VACUUM ANALYZE things`)
	byIndex := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1, PreferIndexes: true})
	for pool, want := range map[*sqlx.DB]string{db: "Seq Scan", byIndex: "Index Only Scan"} {
		var plan []string
		if err := pool.Select(&plan, `EXPLAIN SELECT id FROM things WHERE id = 1`); err != nil || !strings.Contains(plan[0], want) {
			t.Errorf("got %q, %v, want %s", plan, err, want)
		}
	}
}
