package httpd_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/testenv"
)

// testLog keeps the log, one JSON object per line.
type testLog struct{ testenv.Log }

// lastRequest returns the attributes of the last line of the access log.
func (b *testLog) lastRequest(t *testing.T) map[string]any {
	t.Helper()
	var found map[string]any
	for line := range strings.Lines(b.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if entry["msg"] == "request" {
			found = entry
		}
	}
	if found == nil {
		t.Fatalf("no request in the log:\n%s", b)
	}
	return found
}

func (b *testLog) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newServer(t *testing.T, options httpd.Options) (*echo.Echo, *testLog) {
	t.Helper()
	book := &testLog{}
	options.Logger = book.logger()
	return httpd.New(options), book
}

func do(e http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}
