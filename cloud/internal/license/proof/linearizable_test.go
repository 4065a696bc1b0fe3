package proof_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/testenv"
)

// newAccountingLimiter returns a function that opens a replica of the accounting.
func newAccountingLimiter(t *testing.T) func(*sqlx.DB) limiter {
	return func(db *sqlx.DB) limiter {
		s, err := license.New(t.Context(), db, noObserver{}, slog.New(slog.DiscardHandler), license.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// noObserver is an observer that does nothing.
type noObserver struct{}

func (noObserver) SessionsStarted(context.Context, *sqlx.Tx, []license.Started) error { return nil }
func (noObserver) SessionsEnded(context.Context, *sqlx.Tx, []license.Ended) error     { return nil }

// TestLinearizability_AuthorizeAndEnd records LINEARIZABLE_OPERATIONS operations of
// the clients of three replicas. A sequential limiter must be able to produce the same
// answers.
func TestLinearizability_AuthorizeAndEnd(t *testing.T) {
	n := testenv.Depth(3000, 20_000)
	if text := os.Getenv("LINEARIZABLE_OPERATIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("LINEARIZABLE_OPERATIONS: %v", err)
		}
	}
	h := newHistoryRecorder(t, 24, 6, newAccountingLimiter(t))
	verdict, story := h.recorded(n, 400, time.Minute+time.Duration(n)*time.Millisecond)
	t.Log(story)
	if verdict != porcupine.Ok {
		t.Error("the history is not linearizable")
	}
}
