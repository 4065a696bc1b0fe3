package cloud

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measures the requests to the cloud.
type Metrics struct {
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics of requests to the cloud.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "svc_worker_cloud_request_seconds", Help: "Duration of requests to the cloud until the headers of the answer, by operation and status code; the code is error without an answer.",
		Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation", "code"})}
	r.MustRegister(m.seconds)
	return m
}

// Measure sets the metrics. It must be called before the client is used.
func (c *Client) Measure(m *Metrics) { c.meter.metrics = m }

// noAnswer is the code of a request without an answer, and otherCode that of an answer
// with a status that HTTP does not define.
const (
	noAnswer  = "error"
	otherCode = "other"
)

// meter measures requests.
type meter struct {
	http.RoundTripper
	metrics *Metrics // nil: not measured
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.metrics == nil {
		return m.RoundTripper.RoundTrip(r)
	}
	began := time.Now()
	answer, err := m.RoundTripper.RoundTrip(r)
	code := noAnswer
	switch {
	case err != nil:
	case http.StatusText(answer.StatusCode) == "":
		code = otherCode
	default:
		code = strconv.Itoa(answer.StatusCode)
	}
	operation, _ := r.Context().Value(operationKey{}).(string)
	m.metrics.seconds.WithLabelValues(operation, code).Observe(time.Since(began).Seconds())
	return answer, err
}

type operationKey struct{}

// callContext returns the context of a call of an operation. It ends after the timeout
// and the time that the cloud may wait before it answers.
func (c *Client) callContext(ctx context.Context, operation string, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, operationKey{}, operation), c.timeout+wait)
}
