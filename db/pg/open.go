// Package pg opens PostgreSQL, runs transactions and tells its errors apart.
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

// Options tune a pool. Zero values mean the defaults; a negative timeout means
// none.
type Options struct {
	ApplicationName string        // shown by pg_stat_activity; default "svc"
	MaxOpen         int           // connections at most; default 20
	MaxIdle         int           // connections kept while idle; default MaxOpen
	MaxIdleTime     time.Duration // an idle connection is closed after it; default 5 min
	MaxLifetime     time.Duration // any connection is replaced after it; default 1 h
	Statement       time.Duration // longest statement; default 30 s
	Lock            time.Duration // longest wait for a lock; default 10 s
	IdleInTx        time.Duration // longest pause inside a transaction; default 15 s
	Connect         time.Duration // one attempt to connect; default 5 s
	Wait            time.Duration // how long Open waits for a server that is not up; default 30 s
	Role            string        // to act as; default the one that signs in
	// PreferIndexes has the planner take an index wherever there is one, and make one
	// plan for a prepared statement. Else the statement is planned anew five times
	// on each connection, and keeps the plan that it got while its tables were
	// small: then it reads them whole until somebody analyzes them.
	PreferIndexes bool
}

// The roles that the service works as. They own nothing, and migrations make
// them.
const (
	AppRole = "svc_app" // sees one organization's rows under row-level security, and only inside InOrg
	AllRole = "svc_all" // sees every organization's
)

// Open returns a pool on the database that dsn names (a postgres:// URL or
// key=value pairs) once it has answered. A server that can't be reached yet, or
// is starting up, is asked again with growing pauses until opts.Wait or ctx
// ends; any other refusal is returned at once. Parameters in the dsn win over
// opts. An argument of type []byte is sent as binary: that is right for bytea,
// while JSON has to be a string.
func Open(ctx context.Context, dsn string, opts Options) (*sqlx.DB, error) {
	opts = opts.withDefaults()
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	configure(&config, opts)
	driver, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the database address: %w", err)
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

// configure adds what the address leaves out. The timeouts travel as start-up
// parameters, so every connection of the pool has them without a round trip.
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
		"jit":                                 "off", // no statement here is worth compiling
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

// waitReady pings until the database answers, says something that waiting won't
// change, or the time is up.
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
