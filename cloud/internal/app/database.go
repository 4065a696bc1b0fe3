package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/program"
)

// stopTimeout bounds the shutdown of the embedded PostgreSQL.
const stopTimeout = 15 * time.Second

// database is a connection to a server, and the embedded server if there is one.
type database struct {
	dsn    string
	owner  *sqlx.DB         // of the schema, to migrate it; everything else uses pools
	kind   string           // for the log
	server *embedded.Server // nil for DATABASE_URL
	logger *slog.Logger

	closers program.Closers
}

// addressSuffix is appended to the directory of the embedded PostgreSQL to name
// the file with its address, which commands read while it runs.
const addressSuffix = ".address"

// openOrJoinDatabase is openDatabase for a command: if the embedded PostgreSQL is
// already running, it connects to that.
func openOrJoinDatabase(ctx context.Context, config Config, logger *slog.Logger) (*database, error) {
	d, err := openDatabase(ctx, config, logger)
	if !errors.Is(err, embedded.ErrInUse) {
		return d, err
	}
	address, readErr := embeddedAddress(config)
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	config.DatabaseURL = address
	return openDatabase(ctx, config, logger)
}

// embeddedAddress returns the address of the embedded PostgreSQL that is running in
// DATA_DIR.
func embeddedAddress(config Config) (string, error) {
	address, err := os.ReadFile(filepath.Join(config.DataDir, "postgres"+addressSuffix))
	return string(address), err
}

// withDatabase opens and migrates the database for one command, also while a
// cloud is running.
func withDatabase(ctx context.Context, config Config, logger *slog.Logger, use func(pools) error) error {
	database, err := openOrJoinDatabase(ctx, config, logger)
	if err != nil {
		return err
	}
	defer database.close()
	if err := database.migrate(ctx); err != nil {
		return err
	}
	pools, err := database.pools(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = pools.closers.Close() }()
	return use(pools)
}

// openDatabase opens DATABASE_URL, or starts the embedded PostgreSQL.
func openDatabase(ctx context.Context, config Config, logger *slog.Logger) (*database, error) {
	d := &database{kind: "DATABASE_URL", logger: logger}
	dsn := config.DatabaseURL
	if dsn == "" {
		dir, err := filepath.Abs(filepath.Join(config.DataDir, "postgres"))
		if err != nil {
			return nil, fmt.Errorf("DATA_DIR: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
			return nil, fmt.Errorf("create DATA_DIR: %w", err)
		}
		d.server, err = embedded.Start(ctx, embedded.Options{DataDir: dir, Logger: logger})
		if err != nil {
			return nil, err
		}
		d.closers.AddFunc(d.stopServer)
		d.kind, dsn = "its own, in "+dir, d.server.DSN()
		if err := d.writeAddress(dir, dsn); err != nil {
			d.close()
			return nil, err
		}
	}
	pool, err := pg.Open(ctx, dsn, pg.Options{ApplicationName: "svc-cloud migrate", MaxOpen: 2})
	if err != nil {
		d.close()
		return nil, err
	}
	d.dsn, d.owner = dsn, pool
	d.closers.Add(pool.Close)
	return d, nil
}

// migrate migrates the database and closes the owner connection, which nothing
// else uses.
func (d *database) migrate(ctx context.Context) error {
	err := db.Migrate(ctx, d.owner.DB, d.logger)
	return errors.Join(err, d.owner.Close())
}

// pools are the connection pools of the service, under row-level security.
// Launches use only the pools launches and configs, of which one organization can
// take only a few connections.
type pools struct {
	tenants  *sqlx.DB // sees one organization at a time, in pg.InOrg
	system   *sqlx.DB // sees all organizations; identifies the organization of a request, counts and sweeps
	launches *sqlx.DB // sees all organizations; for batches of key checks, grants and releases
	configs  *sqlx.DB // sees one organization in each statement: for the configurations that launches wait for
	closers  *program.Closers
}

// The maximum number of connections of a replica. Two replicas stay within
// PostgreSQL's default of 100.
const (
	tenantsOpen  = 20
	systemOpen   = 14
	launchesOpen = 10
	configsOpen  = 4
)

// lockTimeout is how long a statement waits for a lock, except in the pool
// tenants. Together with the wait for a batch, it is shorter than the time that
// workers wait for an answer.
const lockTimeout = 5 * time.Second

func (d *database) pools(ctx context.Context) (pools, error) {
	p := pools{closers: &program.Closers{}}
	for _, each := range []struct {
		pool **sqlx.DB
		opts pg.Options
	}{
		{&p.tenants, pg.Options{ApplicationName: "svc-cloud", MaxOpen: tenantsOpen, Role: pg.AppRole}},
		{&p.system, pg.Options{ApplicationName: "svc-cloud system", MaxOpen: systemOpen, Lock: lockTimeout, Role: pg.AllRole, PreferIndexes: true}},
		{&p.launches, pg.Options{ApplicationName: "svc-cloud launches", MaxOpen: launchesOpen, Lock: lockTimeout, Role: pg.AllRole, PreferIndexes: true}},
		{&p.configs, pg.Options{ApplicationName: "svc-cloud configurations", MaxOpen: configsOpen, Lock: lockTimeout, Role: pg.AppRole, PreferIndexes: true}},
	} {
		pool, err := pg.Open(ctx, d.dsn, each.opts)
		if err != nil {
			return pools{}, errors.Join(err, p.closers.Close())
		}
		*each.pool = pool
		p.closers.Add(pool.Close)
	}
	return p, nil
}

func (d *database) writeAddress(dir, dsn string) error {
	address := dir + addressSuffix
	if err := os.Remove(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the address file of the embedded PostgreSQL: %w", err)
	}
	d.closers.Add(func() error { return os.Remove(address) })
	if err := os.WriteFile(address, []byte(dsn), 0o600); err != nil {
		return fmt.Errorf("write the address file of the embedded PostgreSQL: %w", err)
	}
	return nil
}

// failed is closed when the embedded server is not restarted any more. It is nil for an
// external server.
func (d *database) failed() <-chan struct{} {
	if d.server == nil {
		return nil
	}
	return d.server.Done()
}

// failure returns why the embedded server is not restarted any more; nil if it runs.
func (d *database) failure() error {
	if d.server == nil {
		return nil
	}
	return d.server.Err()
}

// close closes what openDatabase has opened.
func (d *database) close() { _ = d.closers.Close() }

func (d *database) stopServer() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := d.server.Stop(ctx); err != nil {
		d.logger.Error("failed to stop embedded PostgreSQL", "error", err)
	}
}
