package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
)

// TestMapOutages_BoundsWaitForConnection takes all connections, as statements on a
// stopped server would.
func TestMapOutages_BoundsWaitForConnection(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{MaxOpen: 1})
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	web := httpd.New(httpd.Options{})
	web.Use(mapOutages(50 * time.Millisecond))
	web.GET("/query", func(c echo.Context) error {
		_, err := db.ExecContext(c.Request().Context(), `SELECT 1`)
		return err
	})
	web.GET("/v1/download", func(c echo.Context) error {
		if _, bounded := c.Request().Context().Deadline(); bounded {
			t.Error("a download has a deadline")
		}
		return c.NoContent(http.StatusNoContent)
	})
	answer := httptest.NewRecorder()
	web.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/query", nil))
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" ||
		!strings.Contains(answer.Body.String(), `"EXTERNAL_SERVICE_ERROR","message":"The database did not answer in time. Try again later."`) {
		t.Errorf("wait for a connection: got %d %s", answer.Code, answer.Body)
	}
	answer = httptest.NewRecorder()
	if web.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/download", nil)); answer.Code != http.StatusNoContent {
		t.Errorf("a download: %d", answer.Code)
	}
}

// TestMapOutages_WithIdempotencyKey: a full disk is also an outage for requests whose
// answers are stored.
func TestMapOutages_WithIdempotencyKey(t *testing.T) {
	h := newTestEnv(t, nil)
	v := newTenant(cheapHash(t))
	h.all.MustExec(v.fill(accessSQL))
	token := h.signIn(t, v, "owner")
	owner := dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 1})
	owner.MustExec(`CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$`)
	owner.MustExec(`CREATE TRIGGER no_space BEFORE INSERT ON profiles FOR EACH ROW EXECUTE FUNCTION no_space()`)
	for _, key := range []string{"", "once"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/profiles", strings.NewReader(`{"name":"A","browserVersion":156}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, err := contracttest.New(t, h.document, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "30" {
			t.Errorf("key %q: %d %s, Retry-After %q, %v", key, answer.StatusCode, body, answer.Header.Get("Retry-After"), err)
		}
	}
}
