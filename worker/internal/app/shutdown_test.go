package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// silentCloud is a cloud that answers nothing.
type silentCloud struct{}

func (silentCloud) Identity() report.Identity { return report.Identity{BootID: uuid.New()} }

func (silentCloud) ReportStart(ctx context.Context, _ report.Start) error { return waitForCancel(ctx) }

func (silentCloud) ReportCommit(ctx context.Context, _ report.Commit) error {
	return waitForCancel(ctx)
}
func (silentCloud) ReportEnd(ctx context.Context, _ report.End) error { return waitForCancel(ctx) }

func (silentCloud) Heartbeat(ctx context.Context, _ session.OrganizationKey, _ int64, _ []uuid.UUID) (report.Heartbeat, error) {
	return report.Heartbeat{}, waitForCancel(ctx)
}

func (silentCloud) Ping(ctx context.Context) error { return waitForCancel(ctx) }

func waitForCancel(ctx context.Context) error {
	<-ctx.Done()
	return fault.Wrap(report.ErrNoAnswer, fault.Unavailable, "The cloud cannot be reached.")
}

func TestShutdown_DeliversTracesWhenCloudIsAway(t *testing.T) {
	var delivered atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		delivered.Add(1)
		w.Header().Set("Connection", "close") // no goroutine stays in the bubble
	}))
	defer collector.Close()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.NewTextHandler(t.Output(), nil))
		sessions := session.NewStore(clock.System{})
		reports, err := report.New(silentCloud{}, sessions, t.TempDir(), logger)
		if err != nil {
			t.Fatal(err)
		}
		traces, err := tracing.Open(t.Context(), tracing.Config{Endpoint: collector.URL}, "svc-worker", "1", logger)
		if err != nil {
			t.Fatal(err)
		}
		w := &worker{
			config: Config{SaveTimeout: time.Minute}, logger: logger,
			launches: launch.New(launch.Options{Sessions: sessions, Clock: clock.System{}, Logger: logger}),
			reports:  reports, traces: traces, recordings: recording.New(recording.Options{Log: logger}),
		}
		w.closers.AddFunc(w.closeTraces)
		_, span := w.traces.Tracer().Start(t.Context(), "session")
		span.End()
		reports.Ended(launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New()})
		w.shutdown(logger)
		w.close(logger)
	})
	if n := delivered.Load(); n != 1 {
		t.Errorf("%d deliveries, want one", n)
	}
}
