package httpd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

func TestAccessLog_SummarizesRepeatedRefusals(t *testing.T) {
	var book bytes.Buffer
	r := newRefusalLimiter(slog.New(slog.NewTextHandler(&book, nil)))
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	written := func(l refusalKey, times int) (n int) {
		for range times {
			r.summarize(t.Context(), now)
			if r.shouldLog(l, now) {
				n++
			}
		}
		return n
	}
	flood := refusalKey{"/launch", "192.0.2.1", fault.Unauthenticated}
	other, fine := refusalKey{"/launch", "192.0.2.2", fault.Unauthenticated}, refusalKey{"/launch", "192.0.2.1", fault.Validation}
	if n := written(flood, 500); n != maxLogged {
		t.Errorf("%d lines of 500 requests", n)
	}
	if a, b := written(other, 3), written(fine, 50); a != 3 || b != 50 {
		t.Errorf("of others %d lines of 3, of other failures %d of 50", a, b)
	}
	now = now.Add(repeatWindow)
	if n := written(flood, 1); n != 1 {
		t.Error("no summary after a minute")
	}
	if text := book.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "notLogged=490") || !strings.Contains(text, "remoteIp=192.0.2.1") {
		t.Errorf("the summary is:\n%s", text)
	}
}
