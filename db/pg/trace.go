package pg

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/lib/pq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/tracing"
)

// traced calls run for a statement, with a span if the caller's trace is being
// recorded. The span has the kind of the statement and its tables, see statementName,
// but neither its text nor its arguments. The span of a query ends when its first
// rows arrive.
func traced[T any](ctx context.Context, prefix, statement string, run func() (T, error)) (T, error) {
	if !trace.SpanFromContext(ctx).IsRecording() { // before statementName, which is not free
		return run()
	}
	name := prefix + statementName(statement)
	_, span := tracing.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "postgresql"), attribute.String("db.query.summary", name)))
	if span == nil { // the caller's span has ended meanwhile
		return run()
	}
	defer span.End()
	result, err := run()
	if err != nil {
		recordError(span, err)
	}
	return result, err
}

// recordError records the SQLSTATE or the type of an error. Its text may contain
// values.
func recordError(span trace.Span, err error) {
	kind := fmt.Sprintf("%T", err)
	if e := pq.As(err); e != nil {
		kind = string(e.Code)
		span.SetAttributes(attribute.String("db.response.status_code", kind))
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, kind)
}

// tracedTx is a transaction whose end is recorded.
type tracedTx struct {
	driver.Tx
	ctx context.Context // of BeginTx: database/sql passes none to Commit
}

// traceTx returns tx, with spans if the caller's trace is being recorded.
func traceTx(ctx context.Context, tx driver.Tx) driver.Tx {
	if tx == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return tx
	}
	return tracedTx{tx, ctx}
}

// Commit implements driver.Tx.
func (t tracedTx) Commit() error {
	_, err := traced(t.ctx, "", "COMMIT", func() (struct{}, error) { return struct{}{}, t.Tx.Commit() })
	return err
}

// Rollback implements driver.Tx.
func (t tracedTx) Rollback() error {
	_, err := traced(t.ctx, "", "ROLLBACK", func() (struct{}, error) { return struct{}{}, t.Tx.Rollback() })
	return err
}
