package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

// testEnv is the environment of the measurements: a durable PostgreSQL server and, on
// demand, svc-cloud.
type testEnv struct {
	dir     string
	server  *embedded.Server
	bin     string // the directory of PostgreSQL's programs
	version string // its version
	database
	cloud    *child
	profiles string // directory for profiles; "" disables profiling
}

// database is a database of the server, with a pool like the service's in production.
type database struct {
	dsn          string
	admin, owner *sqlx.DB
	pool         *sqlx.DB
}

const setupTimeout = 10 * time.Minute // for the setup of a measurement

// openTestEnv builds svc-cloud and starts PostgreSQL. A profile directory enables
// profiling, which costs a little.
func openTestEnv(ctx context.Context, profiles string) (_ *testEnv, err error) {
	s := &testEnv{profiles: profiles}
	if s.dir, err = os.MkdirTemp("", "svc-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := os.Chmod(s.dir, 0o755); err != nil { // PostgreSQL runs as another user
		return nil, err
	}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	if s.bin, err = embedded.FindBin(ctx, ""); err != nil {
		return nil, err
	}
	settings := map[string]string{"min_wal_size": "1GB"}
	if profiles != "" {
		if err := os.MkdirAll(profiles, 0o755); err != nil {
			return nil, err
		}
		settings["shared_preload_libraries"] = "pg_stat_statements"
	}
	s.server, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(s.dir, "postgres"), BinDir: s.bin, Settings: settings})
	if err != nil {
		return nil, err
	}
	if s.database, err = openDatabase(ctx, s.server.DSN(), s.server.AdminDSN()); err != nil {
		return nil, err
	}
	if err := s.fillWAL(ctx); err != nil {
		return nil, err
	}
	return s, s.admin.GetContext(ctx, &s.version, `SELECT split_part(current_setting('server_version'), ' ', 1)`)
}

// fillWAL fills the write-ahead log as on a server that has run for a while. A new
// server stalls for 50 ms whenever it creates a log file.
func (s *testEnv) fillWAL(ctx context.Context) error {
	for _, text := range []string{
		`CREATE TABLE filler AS SELECT repeat(md5(i::text), 60) FROM generate_series(1, 250000) AS i`, `DROP TABLE filler`, `CHECKPOINT`,
	} {
		if _, err := s.admin.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("fill the write-ahead log: %w", err)
		}
	}
	return nil
}

func openDatabase(ctx context.Context, dsn, adminDSN string) (d database, err error) {
	d.dsn = dsn
	if d.admin, err = pg.Open(ctx, adminDSN, pg.Options{Statement: setupTimeout, MaxOpen: 2}); err != nil {
		return d, err
	}
	if d.owner, err = pg.Open(ctx, dsn, pg.Options{Statement: setupTimeout, MaxOpen: 2}); err != nil {
		return d, errors.Join(err, d.closePools())
	}
	if err := db.Migrate(ctx, d.owner.DB, slog.New(slog.DiscardHandler)); err != nil {
		return d, errors.Join(err, d.closePools())
	}
	d.pool, err = pg.Open(ctx, dsn, pg.Options{Role: pg.AllRole, PreferIndexes: true, Statement: setupTimeout})
	if err != nil {
		return d, errors.Join(err, d.closePools())
	}
	return d, nil
}

// createDatabase creates another database on the same server.
func (s *testEnv) createDatabase(ctx context.Context, name string) (database, error) {
	if _, err := s.admin.ExecContext(ctx, "CREATE DATABASE "+pq.QuoteIdentifier(name)+" OWNER svc"); err != nil {
		return database{}, err
	}
	address, err := url.Parse(s.dsn)
	if err != nil {
		return database{}, err
	}
	address.Path = "/" + name
	return openDatabase(ctx, address.String(), s.server.AdminDSN())
}

func (s *testEnv) close() error {
	var problems []error
	if s.cloud != nil {
		problems = append(problems, s.cloud.stop())
	}
	problems = append(problems, s.closePools())
	if s.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		problems = append(problems, s.server.Stop(ctx))
	}
	return errors.Join(append(problems, os.RemoveAll(s.dir))...)
}

func (d database) closePools() error {
	var problems []error
	for _, pool := range []*sqlx.DB{d.admin, d.owner, d.pool} {
		if pool != nil {
			problems = append(problems, pool.Close())
		}
	}
	return errors.Join(problems...)
}

// service returns the license accounting as a replica of the cloud runs it, without an
// observer. The caller closes it.
func (d database) service(ctx context.Context, opts license.Options) (*license.Service, error) {
	return license.New(ctx, d.pool, noObserver{}, slog.New(slog.DiscardHandler), opts)
}

// noObserver is an observer that does nothing.
type noObserver struct{}

func (noObserver) SessionsStarted(context.Context, *sqlx.Tx, []license.Started) error { return nil }
func (noObserver) SessionsEnded(context.Context, *sqlx.Tx, []license.Ended) error     { return nil }

// unlimited is the limit of an unlimited organization.
const unlimited = -1

// organizations creates n organizations with this limit.
func (d database) organizations(ctx context.Context, n, limit int) ([]uuid.UUID, error) {
	all := make([]uuid.UUID, n)
	for i := range all {
		all[i] = newID()
	}
	_, err := d.pool.ExecContext(ctx, `
		INSERT INTO organizations (id, name, slug, created_at) SELECT id, 'Bench', id::text, now() FROM unnest($1::uuid[]) AS id`, pq.Array(all))
	if err == nil {
		_, err = d.pool.ExecContext(ctx, `
			INSERT INTO license_org (organization_id, max_slots) SELECT id, NULLIF($2, -1) FROM unnest($1::uuid[]) AS id`, pq.Array(all), limit)
	}
	return all, err
}

func (d database) organization(ctx context.Context, limit int) (uuid.UUID, error) {
	all, err := d.organizations(ctx, 1, limit)
	return all[0], err
}

// clear deletes all slots, so that each part starts with empty tables.
func (d database) clear(ctx context.Context) error {
	_, err := d.owner.ExecContext(ctx, `TRUNCATE license_slots, license_machines, license_machine_info, license_events, license_superseded_boots`)
	if err == nil {
		_, err = d.pool.ExecContext(ctx, `UPDATE license_org SET in_use = 0 WHERE in_use > 0`)
	}
	if err != nil {
		return fmt.Errorf("clear the tables: %w", err)
	}
	return d.vacuumAndCheckpoint(ctx)
}

// vacuumAndCheckpoint updates the planner's statistics and writes all changes to disk.
func (d database) vacuumAndCheckpoint(ctx context.Context) error {
	if _, err := d.owner.ExecContext(ctx, `VACUUM ANALYZE license_slots, license_org, license_machines`); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	_, err := d.admin.ExecContext(ctx, `CHECKPOINT`)
	return err
}

// recount corrects the counters after slots were inserted directly.
func (d database) recount(ctx context.Context) error {
	_, err := d.pool.ExecContext(ctx, `
		UPDATE license_org o SET in_use = live FROM (
			SELECT organization_id, count(*) AS live FROM license_slots WHERE released_at IS NULL GROUP BY organization_id) s
		WHERE s.organization_id = o.organization_id`)
	if err != nil {
		return fmt.Errorf("recount: %w", err)
	}
	return d.vacuumAndCheckpoint(ctx)
}

// environment returns environment variables with which PostgreSQL's programs connect to
// the database. The password must not be an argument.
func (s *testEnv) environment() ([]string, error) {
	address, err := url.Parse(s.dsn)
	if err != nil {
		return nil, err
	}
	password, _ := address.User.Password()
	return []string{
		"PGHOST=" + address.Query().Get("host"), "PGPORT=" + address.Query().Get("port"), "PGUSER=" + address.User.Username(),
		"PGPASSWORD=" + password, "PGDATABASE=" + strings.TrimPrefix(address.Path, "/"),
		"PGOPTIONS=-c role=" + pg.AllRole, "PATH=" + os.Getenv("PATH"),
	}, nil
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
