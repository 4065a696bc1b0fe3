// Package metrics serves the Prometheus metrics of a program at GET /metrics: on the
// program's port with a token, or on a listener of its own without authentication.
package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/httpd"
)

// Path is the path of the metrics.
const Path = "/metrics"

// Config is the metrics configuration of every program.
type Config struct {
	Token   string `env:"METRICS_TOKEN" secret:"true" doc:"Bearer token for GET /metrics on PORT; the worker also accepts the worker key."`
	Address string `env:"METRICS_ADDR" doc:"Address of a separate listener for GET /metrics without authentication, such as :9090, instead of PORT."`
}

// Validate checks the address.
func (c Config) Validate() error {
	if c.Address == "" {
		return nil
	}
	if _, port, err := c.HostPort(); err != nil || port == 0 {
		return fmt.Errorf("METRICS_ADDR must be a host, which may be empty, and a port from 1 to 65535, such as :9090 or 127.0.0.1:9090")
	}
	return nil
}

// HostPort returns the two parts of Address.
func (c Config) HostPort() (host string, port int, err error) {
	host, service, err := net.SplitHostPort(c.Address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(service, 10, 16)
	return host, int(number), err
}

// NewRegistry returns a registry with the collectors of the Go runtime and of the
// process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// NewBuildInfo returns the gauge PREFIX_build_info, which is always 1.
func NewBuildInfo(prefix, version, contractVersion string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "_build_info", Help: "The version of the program, of its OpenAPI document and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "contract_version": contractVersion, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}

// NewHandler returns the handler of GET /metrics. It answers in the text format, or in
// the OpenMetrics format, which also has exemplars, if the client accepts that. If a
// collector fails, its metrics are missing and the error is logged.
func NewHandler(gatherer prometheus.Gatherer, logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError), EnableOpenMetrics: true,
	})
}

// drainTimeout is how long the listener waits for running requests when it stops.
const drainTimeout = time.Second

// Start serves handler on the listener of METRICS_ADDR until stop is called. It does
// nothing without that address.
func (c Config) Start(ctx context.Context, handler http.Handler, logger *slog.Logger) (stop func(), err error) {
	if c.Address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for METRICS_ADDR: %w", err)
	}
	routes := http.NewServeMux()
	routes.Handle("GET "+Path, handler)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := httpd.Serve(ctx, listener, routes, httpd.Options{Logger: logger, Name: "metrics", DrainTimeout: drainTimeout}); err != nil {
			logger.Error("failed to serve metrics", "error", err)
		}
	})
	return func() { cancel(); serving.Wait() }, nil
}

// Observe adds a duration to a histogram, in seconds. If ctx belongs to a trace that
// this program records, the trace id becomes the exemplar.
func Observe(ctx context.Context, histogram prometheus.Observer, took time.Duration) {
	span := trace.SpanContextFromContext(ctx)
	if exemplars, ok := histogram.(prometheus.ExemplarObserver); ok && span.IsSampled() && !span.IsRemote() {
		exemplars.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	histogram.Observe(took.Seconds())
}
