package proof_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

// faultyDriver is the database driver of one replica. It can break connections and
// change statements.
type faultyDriver struct {
	driver.Connector
	fault *mutation // may be nil

	mu    sync.Mutex
	crash *crash
	down  bool // refuse all connections
}

// crash happens during a statement.
type crash struct {
	number int       // the number of the statement, COMMIT being one, from 1
	after  bool      // after the database executed it, instead of before
	kind   crashKind // callerLeft, connLost or replicaKilled
	leave  func()    // cancels the caller
	fired  bool
}

// open returns a pool like the service's: with row-level security and timeouts.
func (w *faultyDriver) open(t testing.TB, dsn string) *sqlx.DB {
	t.Helper()
	config, err := pq.NewConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Runtime = map[string]string{
		"role": pg.AllRole, "TimeZone": "UTC", "statement_timeout": "20s", "lock_timeout": "10s",
	}
	config.BinaryParameters = true
	if w.Connector, err = pq.NewConnectorConfig(config); err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(w)
	pool.SetMaxOpenConns(8)
	pool.SetMaxIdleConns(8)
	return sqlx.NewDb(pool, "postgres")
}

// arm enables the crash until disarm is called, which reports whether it happened.
func (w *faultyDriver) arm(c *crash) (disarm func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crash = c
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.crash, w.down = nil, false
		return c.fired
	}
}

// now counts a statement and returns the crash that happens during it, if any.
func (w *faultyDriver) now() (*crash, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, driver.ErrBadConn
	}
	c := w.crash
	if c == nil || c.fired {
		return nil, nil
	}
	if c.number--; c.number > 0 {
		return nil, nil
	}
	c.fired = true
	return c, nil
}

// Connect implements driver.Connector.
func (w *faultyDriver) Connect(ctx context.Context) (driver.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, io.ErrUnexpectedEOF
	}
	inner, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{pgConn: inner.(pgConn), driver: w}, nil
}

// pgConn is the interface of the driver's connections.
type pgConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.QueryerContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
	driver.Pinger
}

type conn struct {
	pgConn
	driver *faultyDriver
	dead   bool
	inTx   bool
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return !c.dead && c.pgConn.IsValid() }

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.dead {
		return driver.ErrBadConn
	}
	return c.pgConn.ResetSession(ctx)
}

// around runs a statement, or crashes before or after it.
func (c *conn) around(text string, do func() error) error {
	if c.dead {
		return io.ErrUnexpectedEOF
	}
	crash, err := c.driver.now()
	if err != nil {
		c.dead = true
		return io.ErrUnexpectedEOF
	}
	if crash != nil && !crash.after {
		if err := c.happen(crash); err != nil {
			return err
		}
	}
	if err := c.driver.fault.around(c.pgConn, text, c.inTx, do); err != nil {
		return err
	}
	if crash != nil && crash.after {
		return c.happen(crash)
	}
	return nil
}

func (c *conn) happen(crash *crash) error {
	if crash.kind == callerLeft {
		crash.leave()
		return nil
	}
	if crash.kind == replicaKilled {
		c.driver.mu.Lock()
		c.driver.down = c.driver.crash == crash // else it is over, and the replica about to start again
		c.driver.mu.Unlock()
	}
	c.dead = true
	c.Close()
	return io.ErrUnexpectedEOF
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if c.dead {
		return nil, driver.ErrBadConn
	}
	inner, err := c.pgConn.PrepareContext(ctx, c.driver.fault.change(text))
	if err != nil {
		return nil, err
	}
	return &stmt{inner.(pgStmt), c, text}, nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(text, func() (driver.Rows, error) {
		return c.pgConn.QueryContext(ctx, c.driver.fault.change(text), args)
	})
}

// query reads all rows; only then has the database finished.
func (c *conn) query(text string, do func() (driver.Rows, error)) (driver.Rows, error) {
	var all *bufferedRows
	err := c.around(text, func() error {
		rows, err := do()
		if err != nil {
			return err
		}
		all, err = bufferRows(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.around(text, func() (err error) {
		result, err = c.pgConn.ExecContext(ctx, c.driver.fault.change(text), args)
		return err
	})
	return result, err
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	inner, err := c.pgConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return &tx{inner, c}, nil
}

type tx struct {
	driver.Tx
	conn *conn
}

// Rollback implements driver.Tx.
func (t *tx) Rollback() error {
	t.conn.inTx = false
	return t.Tx.Rollback()
}

// Commit implements driver.Tx.
func (t *tx) Commit() error {
	t.conn.inTx = false
	return t.conn.around("COMMIT", func() error {
		if t.conn.driver.fault.losesCommits() {
			return t.Tx.Rollback()
		}
		return t.Tx.Commit()
	})
}

// pgStmt is the interface of the driver's statements.
type pgStmt interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

type stmt struct {
	pgStmt
	conn *conn
	text string
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(s.text, func() (driver.Rows, error) { return s.pgStmt.QueryContext(ctx, args) })
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	err = s.conn.around(s.text, func() (err error) {
		result, err = s.pgStmt.ExecContext(ctx, args)
		return err
	})
	return result, err
}
