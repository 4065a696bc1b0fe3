// Package dbtest gives each test a PostgreSQL database of its own, migrated,
// in milliseconds: a copy of a template.
//
// With TEST_DATABASE_URL (a role that may create databases) the databases are
// made on that server. Otherwise each test process runs a private server with
// its data among the temporary files; it and its data are gone when the process
// is, even when that was killed.
package dbtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

// stepTimeout bounds the creation or the removal of one database.
const stepTimeout = 30 * time.Second

// sharedServer is the one server of the test process. It is a variable of the package
// because the tests of a package share nothing else.
var sharedServer = sync.OnceValues(openServer)

// New returns a pool on a fresh database with every migration applied. The
// database is dropped when the test ends. A test that can't have one fails.
func New(t testing.TB) *sqlx.DB {
	t.Helper()
	return Open(t, NewDSN(t), pg.Options{})
}

// Open returns a pool on dsn that is closed when the test ends.
func Open(t testing.TB, dsn string, opts pg.Options) *sqlx.DB {
	t.Helper()
	db, err := pg.Open(t.Context(), dsn, opts)
	if err != nil {
		t.Fatalf("open the test database: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// NewDSN is New for a test that opens its own pools: it returns the address of
// the fresh database as a postgres:// URL.
func NewDSN(t testing.TB) string {
	t.Helper()
	return create(t, func(s *server) string { return s.template })
}

// NewEmptyDSN returns the address of a fresh database that was never migrated.
func NewEmptyDSN(t testing.TB) string {
	t.Helper()
	return create(t, func(*server) string { return "template0" })
}

func create(t testing.TB, template func(*server) string) string {
	t.Helper()
	s, err := sharedServer()
	if err != nil {
		t.Fatalf("start the test database server: %v", err)
	}
	name := "t_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
	if err := s.create(t.Context(), name, template(s)); err != nil {
		t.Fatalf("create the test database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return s.address(name)
}

// server is where the databases are made.
type server struct {
	admin    *sqlx.DB
	url      url.URL // of admin
	template string
	private  bool
}

func connect(ctx context.Context, dsn string) (*server, error) {
	address, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(address.Scheme, "postgres") {
		return nil, fmt.Errorf("the address of the test server must be a postgres:// URL") // unquoted: it holds a password
	}
	admin, err := pg.Open(ctx, dsn, pg.Options{ApplicationName: "dbtest", MaxOpen: 4, Statement: stepTimeout, Lock: -1})
	if err != nil {
		return nil, err
	}
	return &server{admin: admin, url: *address}, nil
}

func (s *server) create(ctx context.Context, name, template string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, err := s.admin.ExecContext(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s %s`,
		pq.QuoteIdentifier(name), pq.QuoteIdentifier(template), s.strategy()))
	return err
}

// strategy copies the template's files on a private server, where the two
// checkpoints that this needs cost nothing: 6.5 ms against 8.7 through the log.
// A server that really writes to its disk chooses for itself.
func (s *server) strategy() string {
	if s.private {
		return "STRATEGY FILE_COPY"
	}
	return ""
}

func (s *server) drop(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	_, err := s.admin.ExecContext(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, pq.QuoteIdentifier(name)))
	return err
}

func (s *server) address(database string) string {
	u := s.url
	u.Path = "/" + database
	return u.String()
}
