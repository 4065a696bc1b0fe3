package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// stateCollector reads the state of the worker's parts when it is scraped.
type stateCollector struct {
	w *worker

	sessions, frozen, capacity, available, draining *prometheus.Desc
	warmBrowsers, cdpConnections, resumes, backlog  *prometheus.Desc
	egressDenied, egressBytes, keptFiles            *prometheus.Desc
	warmTarget, warmStarting                        *prometheus.Desc
}

func newStateCollector(w *worker) *stateCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("svc_worker_"+name, help, labels, nil)
	}
	return &stateCollector{
		w:              w,
		sessions:       describe("sessions", "Running sessions."),
		frozen:         describe("frozen_sessions", "Running sessions whose browser is frozen (FREEZE_IDLE_SECONDS)."),
		capacity:       describe("capacity_sessions", "Maximum number of sessions (MAX_SESSIONS); missing without a limit."),
		available:      describe("available", "1 if a launch would be accepted, as GET /readyz reports it, otherwise 0."),
		draining:       describe("draining", "1 if launches are refused because the worker drains or stops, otherwise 0."),
		warmBrowsers:   describe("warm_browsers", "Warm browsers that are ready, by engine.", "engine"),
		warmTarget:     describe("warm_browsers_target", "Warm browsers that the worker keeps now."),
		warmStarting:   describe("warm_browsers_starting", "Browsers that are starting for the pool."),
		cdpConnections: describe("cdp_connections", "Open CDP sockets of clients."),
		resumes:        describe("resumes_total", "Attempts to resume a CDP connection, by result.", "result"),
		backlog:        describe("report_backlog_age_seconds", "Time since the oldest start or end of a session that the cloud has not acknowledged; 0 without one."),
		keptFiles:      describe("kept_files_sessions", "Ended sessions whose files are kept."),
		egressDenied:   describe("egress_denied_total", "Requests of browsers that the egress policy or a rule denied, by reason.", "reason"),
		egressBytes:    describe("egress_bytes_total", "Bytes of the connections of browsers, by direction.", "direction"),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.sessions, c.frozen, c.capacity, c.available, c.draining, c.warmBrowsers, c.warmTarget, c.warmStarting, c.cdpConnections, c.resumes, c.backlog, c.egressDenied, c.egressBytes, c.keptFiles,
	} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(samples chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		samples <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(desc, prometheus.GaugeValue, value, labels...)
	}
	w := c.w
	running, _ := w.launches.Counts()
	gauge(c.sessions, float64(running))
	gauge(c.frozen, float64(w.launches.Frozen()))
	if w.config.MaxSessions > 0 {
		gauge(c.capacity, float64(w.config.MaxSessions))
	}
	gauge(c.available, number(len(w.readiness.Reasons(context.Background())) == 0))
	gauge(c.draining, number(w.launches.Draining()))
	pool := w.warmPool.Stats()
	for name, count := range warmBrowsers(pool.Ready) {
		gauge(c.warmBrowsers, float64(count), name)
	}
	gauge(c.warmTarget, float64(pool.Target))
	gauge(c.warmStarting, float64(pool.Starting))
	gauge(c.cdpConnections, float64(w.relay.Sockets()+w.sockets.Sockets()))
	for result, count := range w.relay.Resumes() {
		send(c.resumes, prometheus.CounterValue, float64(count), result)
	}
	age := time.Duration(0)
	if oldest := w.reports.OldestPending(); !oldest.IsZero() {
		age = max(time.Since(oldest), 0)
	}
	gauge(c.backlog, age.Seconds())
	gauge(c.keptFiles, float64(w.files.Kept()))
	requested, resolved, byRule := w.policy.Denied()
	send(c.egressDenied, prometheus.CounterValue, float64(requested), "requested")
	send(c.egressDenied, prometheus.CounterValue, float64(resolved), "resolved")
	send(c.egressDenied, prometheus.CounterValue, float64(byRule), "rule")
	received, sent := w.policy.Transferred()
	send(c.egressBytes, prometheus.CounterValue, float64(received), "received")
	send(c.egressBytes, prometheus.CounterValue, float64(sent), "sent")
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// warmBrowsers returns the numbers of warm browsers by engine.
func warmBrowsers(ready []warm.KindCount[launch.WarmKind]) map[string]int {
	counts := map[string]int{string(builds.Chromium): 0, string(builds.HeadlessShell): 0}
	for _, held := range ready {
		counts[string(held.Kind.Build.Engine)] += held.Count
	}
	return counts
}

// metricsHandler returns the handler of GET /metrics.
func (w *worker) metricsHandler() http.Handler { return metrics.NewHandler(w.metrics, w.logger) }

// announcePorts announces the API port and that of METRICS_ADDR, so that the browsers
// of other workers of this host are denied them too.
func (w *worker) announcePorts() error {
	ports := []int{w.config.Port}
	if w.config.Metrics.Address != "" {
		_, port, err := w.config.Metrics.HostPort()
		if err != nil {
			return fmt.Errorf("METRICS_ADDR: %w", err)
		}
		ports = append(ports, port)
	}
	for _, port := range ports {
		withdraw, err := w.policy.AnnounceAPIPort(port)
		if err != nil {
			return err
		}
		w.closers.AddFunc(withdraw)
	}
	return nil
}
