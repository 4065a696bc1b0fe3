package httpd_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
)

func TestReadiness_ReportsAllReasonsAndLogsChanges(t *testing.T) {
	var log bytes.Buffer
	var now []httpd.Reason
	ready := httpd.NewReadiness(slog.New(slog.NewTextHandler(&log, nil)),
		func(context.Context) []httpd.Reason { return now },
		func(context.Context) []httpd.Reason { return nil })
	for range 2 {
		if err := ready.Err(t.Context()); err != nil || log.Len() > 0 {
			t.Fatalf("ready, but %v, log %s", err, &log)
		}
	}
	now = []httpd.Reason{{"license", "key_refused", "The key is refused."}, {"capacity", "memory", "No memory."}}
	for range 3 {
		err := ready.Err(t.Context())
		want := fault.New(fault.Unavailable, "Not ready. The key is refused.",
			fault.Detail{Field: "license", Code: fault.Custom, Message: "The key is refused.", Constraint: map[string]any{"reason": "key_refused"}},
			fault.Detail{Field: "capacity", Code: fault.Custom, Message: "No memory.", Constraint: map[string]any{"reason": "memory"}})
		if diff := cmp.Diff(want.Details, fault.From(err).Details); diff != "" || fault.From(err).Message != want.Message || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if n := strings.Count(log.String(), "not ready"); n != 1 || !strings.Contains(log.String(), "key_refused memory") {
		t.Errorf("logged %d times: %s", n, &log)
	}
	now = nil
	if err := ready.Err(t.Context()); err != nil || !strings.Contains(log.String(), "ready again") {
		t.Errorf("ready again: %v, %s", err, &log)
	}
}

func TestReadiness_FailsDuringShutdownDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := httpd.NewReadiness(nil)
		began, over := time.Now(), make(chan time.Duration, 1)
		go func() {
			ready.Shutdown(5*time.Second, nil)
			over <- time.Since(began)
		}()
		synctest.Wait()
		if reasons := ready.Reasons(t.Context()); len(reasons) != 1 || reasons[0].Code != httpd.Draining {
			t.Errorf("at once: %v", reasons)
		}
		if took := <-over; took != 5*time.Second {
			t.Errorf("returned after %v", took)
		}
		done := make(chan struct{})
		close(done)
		began = time.Now()
		ready.Shutdown(time.Hour, done)
		ready.Shutdown(0, nil)
		if took := time.Since(began); took > 0 {
			t.Errorf("without a delay: returned after %v", took)
		}
	})
}

func TestAccessLog_ProbesAreDebug(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/readyz", func(echo.Context) error { return fault.New(fault.Unavailable, "Not ready.") })
	e.GET("/livez", func(c echo.Context) error { return c.NoContent(200) })
	for path, status := range map[string]int{"/readyz": 503, "/livez": 200} {
		if w := do(e, "GET", path); w.Code != status {
			t.Errorf("%s: %d", path, w.Code)
		}
		if line := book.lastRequest(t); line["level"] != "DEBUG" {
			t.Errorf("%s is logged as %v", path, line)
		}
	}
}
