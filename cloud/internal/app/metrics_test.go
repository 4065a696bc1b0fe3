package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/stripe/stripe-go/v85/webhook"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/metrics/metricstest"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/testenv"
)

const metricsToken = "metrics-token-of-these-tests"

// getMetrics asks for the metrics with headers as name, value, ...
func (h *testEnv) getMetrics(t testing.TB, headers ...string) (status int, text []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(contracttest.AllowInvalidRequest(t.Context()), http.MethodGet, h.url+metrics.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := contracttest.New(t, h.document, nil).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

func (h *testEnv) scrape(t testing.TB) *metricstest.Scrape {
	t.Helper()
	status, text := h.getMetrics(t, "Authorization", "Bearer "+metricsToken)
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, text)
	}
	return metricstest.Parse(t, text)
}

func TestMetrics_FollowAuthorizes(t *testing.T) {
	h := newTestEnv(t, nil)
	k := h.newKeyClient(t) // authorizes twice for the same slot
	k.want("heartbeat", k.send(http.MethodPost, "/v1/license/sessions/heartbeat",
		fmt.Sprintf(`{"machineId": "worker-1", "bootId": %q, "seq": 1, "sessions": []}`, k.boot)), http.StatusOK)
	k.want("another machine", k.ask(strings.Replace(k.launch(k.session), "worker-1", "worker-2", 1)), http.StatusConflict)
	k.limit(1)
	k.want("no free slot", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusPaymentRequired)
	k.want("sign-up", k.send(http.MethodPost, "/v1/auth/sign-up", `{"email": "ada@example.com", "password": "`+password+`", "name": "Ada"}`), http.StatusCreated)
	ctx, stop := context.WithCancel(t.Context())
	var reaper sync.WaitGroup
	reaper.Go(func() { h.parts.licenses.RunReaper(ctx, 10*time.Millisecond) })
	testenv.Eventually(t, "a success of the reaper", func() bool { return !h.parts.licenses.ReapedAt().IsZero() })
	stop()
	reaper.Wait()
	got := h.scrape(t)
	for _, series := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{2, "svc_cloud_authorize_total", []string{"verdict", "allowed", "reason", ""}},
		{1, "svc_cloud_authorize_total", []string{"verdict", "refused", "reason", "concurrency_limit"}},
		{0, "svc_cloud_authorize_total", []string{"verdict", "refused", "reason", "profile_limit"}},
		{1, "svc_cloud_authorize_total", []string{"verdict", "error", "reason", "conflict"}},
		{4, "svc_cloud_authorize_seconds", nil},
		{2, "svc_cloud_http_request_seconds", []string{"operation", "authorizeLaunch", "code", "200"}},
		{1, "svc_cloud_http_request_seconds", []string{"operation", "authorizeLaunch", "code", "402"}},
		{1, "svc_cloud_http_request_seconds", []string{"operation", "heartbeatLicenseSessions", "code", "200"}},
		{1, "svc_cloud_slots", []string{"state", "reserved"}},
		{0, "svc_cloud_slots", []string{"state", "running"}},
		{1, "svc_cloud_machines", []string{"state", "online"}},
		{0, "svc_cloud_machines", []string{"state", "offline"}},
		{0, "svc_cloud_reclaimed_total", nil},
		{0, "svc_cloud_audit_counter_repairs_total", nil},
		{launchesOpen, "svc_cloud_db_pool", []string{"pool", "launches", "state", "max"}},
		{0, "svc_cloud_db_wait_seconds", []string{"pool", "configs"}},
		{0, "svc_cloud_metrics_query_errors_total", []string{"query", "slots"}},
		{0, "svc_cloud_webhook_failures_total", []string{"reason", "processing"}},
	} {
		if value := got.Value(t, series.name, series.labels...); value != series.want {
			t.Errorf("%s %q is %v, want %v", series.name, series.labels, value, series.want)
		}
	}
	if size := got.Value(t, "svc_cloud_batch_size"); size < 1 {
		t.Errorf("got %v batches", size)
	}
	if age := got.Value(t, "svc_cloud_mail_oldest_seconds"); age <= 0 || age > 600 {
		t.Errorf("the oldest mail is %v s old", age)
	}
	if age := float64(time.Now().Unix()) - got.Value(t, "svc_cloud_reaper_last_success_timestamp_seconds"); age < -1 || age > 600 {
		t.Errorf("the reaper succeeded %v s ago", age)
	}
	got.Lint(t, "svc_cloud_audit_counter_repairs_total") // the counter in its name is what was repaired
	got.CheckDocument(t, "../../../openapi/operations/METRICS.md", "svc_cloud_")
}

func TestMetrics_WithoutDatabaseLackWhatItHolds(t *testing.T) {
	h := newTestEnv(t, nil)
	if err := h.parts.pools.closers.Close(); err != nil {
		t.Fatal(err)
	}
	got := h.scrape(t)
	for _, name := range []string{"svc_cloud_slots", "svc_cloud_machines", "svc_cloud_mail_oldest_seconds"} {
		if got.Families[name] != nil {
			t.Errorf("there is a series of %s", name)
		}
	}
	for _, query := range []string{"slots", "machines", "mail"} {
		if failed := got.Value(t, "svc_cloud_metrics_query_errors_total", "query", query); failed != 1 {
			t.Errorf("query %s failed %v times, want once", query, failed)
		}
	}
	got.Value(t, "svc_cloud_db_pool", "pool", "system", "state", "in_use")
	if failed := h.scrape(t).Value(t, "svc_cloud_metrics_query_errors_total", "query", "slots"); failed != 1 {
		t.Errorf("a second scrape asked the database again: %v failures", failed)
	}
}

func TestMetrics_CountWebhookFailures(t *testing.T) {
	h := newTestEnv(t, map[string]string{
		"STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "whsec_1",
		"STRIPE_API_BASE": fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePort(t)), // nothing listens
	})
	send := func(signature string, payload []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/webhooks/stripe", strings.NewReader(string(payload)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("Stripe-Signature", signature)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	event := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Secret: "whsec_1", Payload: []byte(
		`{"id":"evt_1","object":"event","type":"customer.subscription.updated","created":1795256100,"data":{"object":{"id":"sub_1","object":"subscription"}}}`)})
	send("t=1,v1=00", event.Payload)
	send(event.Header, event.Payload)
	got := h.scrape(t)
	for _, reason := range []string{"signature", "processing"} {
		if failed := got.Value(t, "svc_cloud_webhook_failures_total", "reason", reason); failed != 1 {
			t.Errorf("%s: got %v, want 1", reason, failed)
		}
	}
}

func TestMetrics_RequireToken(t *testing.T) {
	h, closed := newTestEnv(t, nil), newTestEnv(t, map[string]string{"METRICS_TOKEN": ""})
	for _, test := range []struct {
		name    string
		env     *testEnv
		headers []string
		says    []string
	}{
		{"no token", h, nil, []string{"METRICS_TOKEN"}},
		{"a wrong token", h, []string{"Authorization", "Bearer wrong"}, []string{"invalid"}},
		{"the token as key", h, []string{"X-API-Key", metricsToken}, []string{"invalid"}},
		{"none configured", closed, nil, []string{"METRICS_TOKEN", "METRICS_ADDR"}},
		{"none configured, an empty token", closed, []string{"Authorization", "Bearer "}, []string{"METRICS_TOKEN", "METRICS_ADDR"}},
	} {
		status, text := test.env.getMetrics(t, test.headers...)
		if status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", test.name, status)
		}
		for _, word := range test.says {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s: %s does not contain %q", test.name, text, word)
			}
		}
	}
}

// TestMetrics_SeriesDoNotGrowWithPaths sends requests with random paths, ids and methods,
// as a scanner would.
func TestMetrics_SeriesDoNotGrowWithPaths(t *testing.T) {
	h := newTestEnv(t, nil)
	scan := func(requests int) {
		for i := range requests {
			id := uuid.NewString()
			method, path := "GET", "/"+id
			switch i % 5 {
			case 1:
				path = "/v1/profiles/" + id
			case 2:
				path = "/v1/" + id + "/" + id + "?token=" + id
			case 3:
				method = "X" + strings.ToUpper(id[:6])
			case 4:
				method, path = "DELETE", "/v1/organizations/"+id+"/keys/"+id
			}
			r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
	}
	scan(5)
	h.scrape(t) // the next has the series of this one
	before := h.scrape(t).Series
	scan(1000)
	if after := h.scrape(t); after.Series != before {
		t.Errorf("%d series before 1000 requests, %d after", before, after.Series)
	} else if got, _ := after.Find("svc_cloud_http_request_seconds", "operation", "other", "code", "404"); got < 400 {
		t.Errorf("got %v requests of no operation", got)
	}
}

func TestMetrics_OnAddressOfTheirOwn(t *testing.T) {
	port, address := testenv.FreePort(t), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	config := Config{
		Host: "127.0.0.1", Port: port, DataDir: t.TempDir(), DatabaseURL: dbtest.NewDSN(t),
		Metrics: metrics.Config{Token: metricsToken, Address: address},
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, port, done)
	own := &testEnv{url: "http://" + address, document: contracttest.Load(t, "cloud.yaml")}
	answer, err := http.Get(own.url + metrics.Path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %d: %v", answer.StatusCode, err)
	}
	metricstest.Parse(t, text).Value(t, "svc_cloud_authorize_seconds")
	main := &testEnv{url: fmt.Sprintf("http://127.0.0.1:%d", port), document: own.document}
	if status, text := main.getMetrics(t, "Authorization", "Bearer "+metricsToken); status != http.StatusNotFound {
		t.Errorf("on the port of the API: got %d %s", status, text)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if answer, err := http.Get(own.url + metrics.Path); err == nil {
		_ = answer.Body.Close()
		t.Errorf("after the cloud stopped: got %d", answer.StatusCode)
	}
}

func TestMetrics_RequestHasTraceAsExemplar(t *testing.T) {
	document, err := oapi.Parse(cloudapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	m := newServiceMetrics()
	web := httpd.New(httpd.Options{Observe: m.observer(document)})
	tracer := sdk.NewTracerProvider().Tracer("test")
	var traceID string
	web.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, span := tracer.Start(c.Request().Context(), "request")
			defer span.End()
			traceID = span.SpanContext().TraceID().String()
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	})
	web.GET("/v1/plans", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	web.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/v1/plans", nil))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, metrics.Path, nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	recorder := httptest.NewRecorder()
	m.handler(slog.New(slog.DiscardHandler)).ServeHTTP(recorder, r)
	exemplar := regexp.MustCompile(`svc_cloud_http_request_seconds_bucket\{code="200",operation="listPlans",le="[0-9.e+-]+"\} 1 # \{trace_id="` + traceID + `"\}`)
	if !exemplar.Match(recorder.Body.Bytes()) {
		t.Errorf("no exemplar of the request:\n%s", recorder.Body)
	}
}

// TestMetrics_ScrapeUnderLoad reports figures; it fails only if a scrape fails.
func TestMetrics_ScrapeUnderLoad(t *testing.T) {
	h := newTestEnv(t, nil)
	k := h.newKeyClient(t)
	k.limit(1 << 20)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				k.ask(k.launch(uuid.Must(uuid.NewV7())))
			}
		})
	}
	scrapes := testenv.Depth(20, 200)
	fastest, slowest, total := time.Hour, time.Duration(0), time.Duration(0)
	for range scrapes {
		began := time.Now()
		h.scrape(t)
		took := time.Since(began)
		fastest, slowest, total = min(fastest, took), max(slowest, took), total+took
	}
	last := h.scrape(t)
	stop()
	clients.Wait()
	t.Logf("%d series, scrape %v at least, %v on average, %v at most, during %v authorizes", last.Series, fastest, total/time.Duration(scrapes), slowest,
		last.Value(t, "svc_cloud_authorize_seconds"))
}
