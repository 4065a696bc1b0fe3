package pg_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/shared/tracing/tracetest"
)

func TestTraces_HaveStatementsWithoutValues(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{MaxOpen: 1})
	collector := tracetest.New(t)
	traces, err := tracing.Open(t.Context(), tracing.Config{Endpoint: collector.URL}, "svc", "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	db.MustExecContext(t.Context(), `CREATE TABLE notes (id int PRIMARY KEY, text text)`)
	ctx, request := traces.Tracer().Start(t.Context(), "request")
	organization := uuid.New()
	insert, err := db.PreparexContext(ctx, `INSERT INTO notes VALUES ($1, $2)`)
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	err = pg.InOrg(ctx, db, organization, func(tx *sqlx.Tx) error {
		if _, err := tx.StmtxContext(ctx, insert).ExecContext(ctx, 1, "secret-argument"); err != nil {
			return err
		}
		var found []string
		return tx.SelectContext(ctx, &found, `SELECT text FROM notes WHERE text <> 'secret-literal'`)
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	if err := pg.InTx(ctx, db, func(*sqlx.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if _, err := insert.ExecContext(ctx, 1, "secret-duplicate"); !pg.IsUnique(err, "notes_pkey") {
		t.Fatal(err)
	}
	request.End()
	db.MustExecContext(ctx, `DELETE FROM notes`) // the request has ended
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, span := range collector.Spans() {
		if span.Name == "request" {
			continue
		}
		names = append(names, span.Name)
		if span.Parent() != request.SpanContext().SpanID().String() || span.Kind != otlp.Span_SPAN_KIND_CLIENT ||
			span.Attribute("db.system.name").GetStringValue() != "postgresql" || span.Attribute("db.query.summary").GetStringValue() != span.Name {
			t.Errorf("span %+v", span)
		}
	}
	want := []string{"PREPARE INSERT notes", "BEGIN", "SET", "INSERT notes", "SELECT notes", "COMMIT", "BEGIN", "ROLLBACK", "INSERT notes"}
	if !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
	last := collector.Named("INSERT notes")[1]
	if last.Status.Code != otlp.Status_STATUS_CODE_ERROR || last.Attribute("db.response.status_code").GetStringValue() != "23505" {
		t.Errorf("the span of a failure is %+v", last)
	}
	bodies, _ := collector.Received()
	for _, secret := range []string{"secret-", organization.String(), "WHERE"} {
		if strings.Contains(string(bodies), secret) {
			t.Errorf("%s is in the spans", secret)
		}
	}
}
