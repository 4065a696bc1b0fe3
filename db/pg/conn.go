package pg

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// connector opens the connections of a pool. If the server refuses a write on one
// of them, all open connections are replaced: the server may have become a standby,
// or a session setting may have made it read-only. Open connections do not recover
// from either.
type connector struct {
	driver.Connector
	// readOnlySince is the time of the last refused write in Unix nanoseconds.
	// Connections opened before it are not reused.
	readOnlySince atomic.Int64
}

// replaceInterval is the minimum time between two replacements of all connections. The
// connection whose write was refused is always replaced.
const replaceInterval = time.Second

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened := time.Now().UnixNano()
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{pqConn: raw.(pqConn), connector: c, opened: opened}, nil
}

// pqConn has the methods of the driver's connection that database/sql uses.
type pqConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// conn is a connection that is discarded after the server refused a write.
type conn struct {
	pqConn
	connector *connector
	opened    int64 // Unix nanoseconds
	readOnly  bool  // database/sql uses a connection from one goroutine at a time
}

// noteReadOnly notes that the server is read-only, and returns err.
func (c *conn) noteReadOnly(err error) error {
	if err != nil && pq.As(err, pqerror.ReadOnlySQLTransaction) != nil {
		c.markReadOnly()
	}
	return err
}

// markReadOnly notes that the server does not let this connection write.
func (c *conn) markReadOnly() {
	c.readOnly = true
	now, last := time.Now().UnixNano(), c.connector.readOnlySince.Load()
	if now-last >= int64(replaceInterval) {
		c.connector.readOnlySince.CompareAndSwap(last, now)
	}
}

func (c *conn) stale() bool { return c.readOnly || c.opened < c.connector.readOnlySince.Load() }

// IsValid implements driver.Validator. The pool discards invalid connections.
func (c *conn) IsValid() bool { return !c.stale() && c.pqConn.IsValid() }

// ResetSession implements driver.SessionResetter. For ErrBadConn, the pool uses
// another connection.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.stale() {
		return driver.ErrBadConn
	}
	return c.pqConn.ResetSession(ctx)
}

// BeginTx implements driver.ConnBeginTx. A standby refuses read-write transactions
// with feature_not_supported.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := traced(ctx, "", "BEGIN", func() (driver.Tx, error) { return c.pqConn.BeginTx(ctx, opts) })
	if err != nil && pq.As(err, pqerror.FeatureNotSupported) != nil {
		c.markReadOnly()
		return nil, errors.Join(ErrReadOnly, err)
	}
	return traceTx(ctx, tx), c.noteReadOnly(err)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := traced(ctx, "", query, func() (driver.Result, error) { return c.pqConn.ExecContext(ctx, query, args) })
	return result, c.noteReadOnly(err)
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := traced(ctx, "", query, func() (driver.Rows, error) { return c.pqConn.QueryContext(ctx, query, args) })
	return rows, c.noteReadOnly(err)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	prepared, err := traced(ctx, "PREPARE ", query, func() (driver.Stmt, error) { return c.pqConn.PrepareContext(ctx, query) })
	if err != nil {
		return nil, c.noteReadOnly(err)
	}
	if statement, ok := prepared.(pqStmt); ok {
		return &stmt{pqStmt: statement, conn: c, query: query}, nil
	}
	return prepared, nil
}

// pqStmt has the methods of the driver's prepared statement that database/sql uses.
type pqStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type stmt struct {
	pqStmt
	conn  *conn
	query string
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := traced(ctx, "", s.query, func() (driver.Result, error) { return s.pqStmt.ExecContext(ctx, args) })
	return result, s.conn.noteReadOnly(err)
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := traced(ctx, "", s.query, func() (driver.Rows, error) { return s.pqStmt.QueryContext(ctx, args) })
	return rows, s.conn.noteReadOnly(err)
}
