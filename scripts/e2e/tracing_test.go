package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/tracing/tracetest"
)

// The trace of the client.
const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

func withTraceparent(_ context.Context, r *http.Request) error {
	r.Header.Set("Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
	return nil
}

func TestTracing_OneTraceFromClientToDatabase(t *testing.T) {
	t.Parallel()
	collector := tracetest.New(t)
	traced := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=100", "METRICS_TOKEN=metrics-token"}
	c := startCloud(t, append(traced, "DATABASE_URL="+dbtest.NewDSN(t))...)
	a := c.signUp(t)
	w := startWorker(t, c, a.key, traced...)
	answer, err := w.api.LaunchProfileWithResponse(t.Context(),
		workerapi.LaunchProfileRequest{Spec: &sharedapi.LaunchSpec{Name: new("traced")}}, withTraceparent)
	requireAnswer(t, err, answer, http.StatusCreated)
	w.killSession(t, answer.JSON201.Data.Id)

	const authorize = "svc-worker launchProfile > svc-worker launch > svc-worker authorizeLaunch > svc-cloud authorizeLaunch > "
	eventually(t, 20*time.Second, "the trace is complete", func() error {
		var statements []string
		for _, span := range collector.Spans() {
			if span.Trace() != clientTrace {
				continue
			}
			path, err := pathTo(collector.Spans(), span)
			if err != nil {
				return err
			}
			if span.Attribute("db.system.name").GetStringValue() == "postgresql" {
				statements = append(statements, path)
			}
		}
		for _, want := range []string{authorize, "svc-worker launchProfile > svc-worker launch > svc-worker startProfileSession > svc-cloud startProfileSession > "} {
			if !slices.ContainsFunc(statements, func(path string) bool { return strings.HasPrefix(path, want) }) {
				return fmt.Errorf("no statement is below %s: %q", want, statements)
			}
		}
		return nil
	})
	for name, text := range map[string]string{"cloud": c.logText(), "worker": w.logText()} {
		if !strings.Contains(text, clientTrace) {
			t.Errorf("the log of the %s does not have the trace id", name)
		}
	}
	bodies, _ := collector.Received()
	for name, secret := range map[string]string{
		"organization key": a.key, "worker key": w.key, "control token": controlToken(t, *answer.JSON201.Data.WebSocketDebuggerUrl),
	} {
		if strings.Contains(string(bodies), secret) {
			t.Errorf("the spans contain the %s", name)
		}
	}
	for url, histograms := range map[string][]string{
		c.url: {"svc_cloud_http_request_seconds", "svc_cloud_authorize_seconds"},
		w.url: {"svc_worker_launch_duration_seconds", "svc_worker_cloud_request_seconds"},
	} {
		assertExemplars(t, url, histograms)
	}
}

// pathTo returns the services and names from the span below the client's span to span.
func pathTo(all []tracetest.Span, span tracetest.Span) (string, error) {
	path := span.Service + " " + span.Name
	for span.Parent() != clientSpan {
		i := slices.IndexFunc(all, func(s tracetest.Span) bool { return s.ID() == span.Parent() })
		if i < 0 {
			return "", fmt.Errorf("the parent of %s has not arrived", path)
		}
		span = all[i]
		path = span.Service + " " + span.Name + " > " + path
	}
	return path, nil
}

// assertExemplars fails the test unless the histograms have exemplars of the client's
// trace in the OpenMetrics format.
func assertExemplars(t *testing.T, url string, histograms []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer metrics-token")
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Fatalf("%s, %s, %v", answer.Status, answer.Header.Get("Content-Type"), err)
	}
	for _, name := range histograms {
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, name+"_bucket{") && strings.Contains(line, `# {trace_id="`+clientTrace+`"}`)
		}) {
			t.Errorf("%s has no exemplar of the trace", name)
		}
	}
}
