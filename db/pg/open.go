// Package pg opens PostgreSQL connection pools, runs transactions and classifies
// errors.
package pg

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Options configures a pool. Zero values are replaced by defaults; a negative
// timeout disables it.
type Options struct {
	ApplicationName string        // application_name; default "svc"
	MaxOpen         int           // maximum open connections; default 20
	MaxIdle         int           // maximum idle connections; default MaxOpen
	MaxIdleTime     time.Duration // maximum idle time of a connection; default 5 min
	MaxLifetime     time.Duration // maximum age of a connection; default 1 h
	Statement       time.Duration // statement_timeout; default 30 s
	Lock            time.Duration // lock_timeout; default 10 s
	IdleInTx        time.Duration // idle_in_transaction_session_timeout; default 15 s
	Connect         time.Duration // timeout of one connection attempt; default 5 s
	Wait            time.Duration // how long Open waits for the server to start; default 30 s
	Role            string        // SET ROLE; default the login role
	// PreferIndexes disables sequential scans where an index exists and uses generic
	// plans for prepared statements. Otherwise a plan made while the tables were
	// small keeps scanning them sequentially until the next ANALYZE.
	PreferIndexes bool
}

// The database roles of the service. Migrations create them; they own nothing.
const (
	AppRole = "svc_app" // accesses the rows of one organization, inside InOrg only
	AllRole = "svc_all" // accesses the rows of all organizations
)

// Open connects to the database of dsn (a postgres:// URL or key=value pairs) and
// returns a pool. If the server is unreachable or starting up, Open retries with
// backoff until opts.Wait or ctx ends. Other errors are returned at once. Parameters
// in the dsn override opts. Arguments of type []byte are sent as binary: use them
// for bytea, and strings for JSON.
func Open(ctx context.Context, dsn string, opts Options) (*sqlx.DB, error) {
	opts = opts.withDefaults()
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	configure(&config, opts)
	driver, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, fmt.Errorf("parse the database URL: %w", err)
	}
	driver.Dialer(dialer{responseTimeout(config)})
	db := sql.OpenDB(&connector{Connector: driver})
	db.SetMaxOpenConns(opts.MaxOpen)
	db.SetMaxIdleConns(opts.MaxIdle)
	db.SetConnMaxIdleTime(max(opts.MaxIdleTime, 0))
	db.SetConnMaxLifetime(max(opts.MaxLifetime, 0))
	if err := waitReady(ctx, db, opts.Wait); err != nil {
		db.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return sqlx.NewDb(db, "postgres"), nil
}

func (o Options) withDefaults() Options {
	if o.ApplicationName == "" {
		o.ApplicationName = "svc"
	}
	if o.MaxOpen == 0 {
		o.MaxOpen = 20
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = o.MaxOpen
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.MaxIdleTime, 5 * time.Minute},
		{&o.MaxLifetime, time.Hour},
		{&o.Statement, 30 * time.Second},
		{&o.Lock, 10 * time.Second},
		{&o.IdleInTx, 15 * time.Second},
		{&o.Connect, 5 * time.Second},
		{&o.Wait, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	return o
}

// configure adds the parameters that the DSN does not set. The timeouts are startup
// parameters, so setting them needs no round trip.
func configure(config *pq.Config, opts Options) {
	if config.ApplicationName == "" {
		config.ApplicationName = opts.ApplicationName
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = max(opts.Connect, 0)
	}
	config.BinaryParameters = true // a statement with arguments is one round trip, not two
	if config.TZ == "" {
		config.TZ = "UTC"
	}
	runtime := map[string]string{
		"statement_timeout":                   milliseconds(opts.Statement),
		"lock_timeout":                        milliseconds(opts.Lock),
		"idle_in_transaction_session_timeout": milliseconds(opts.IdleInTx),
		"jit":                                 "off", // statements are too short to benefit
	}
	if opts.PreferIndexes {
		runtime["enable_seqscan"], runtime["plan_cache_mode"] = "off", "force_generic_plan"
	}
	if opts.Role != "" {
		runtime["role"] = opts.Role
	}
	maps.Copy(runtime, config.Runtime)
	config.Runtime = runtime
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d, 0).Milliseconds(), 10)
}

// waitReady pings until the database responds, returns a permanent error, or the
// time is up.
func waitReady(ctx context.Context, db *sql.DB, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer cancel()
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 2*time.Second) {
		err := db.PingContext(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if last == nil {
				last = err
			}
			return fmt.Errorf("gave up: %w", last)
		case !IsUnavailable(err):
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w", last)
		case <-time.After(pause):
		}
	}
}
