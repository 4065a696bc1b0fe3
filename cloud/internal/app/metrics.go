package app

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
)

// serviceMetrics are the metrics that are not read from the services when they are
// scraped.
type serviceMetrics struct {
	registry        *prometheus.Registry
	requests        *prometheus.HistogramVec
	webhookFailures *prometheus.CounterVec
}

// unknownOperation is the operation of all requests that belong to none: unknown paths,
// and the files of the dashboard and of /docs.
const unknownOperation = "other"

// Reasons of webhook failures.
const (
	wrongSignature   = "signature"
	failedProcessing = "processing"
)

func newServiceMetrics() *serviceMetrics {
	m := &serviceMetrics{
		registry: metrics.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_cloud_http_request_seconds", Help: "Duration of requests by operation of the API and status code.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"operation", "code"}),
		webhookFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_cloud_webhook_failures_total", Help: "Events of the payment provider that were not accepted, by reason.",
		}, []string{"reason"}),
	}
	m.webhookFailures.WithLabelValues(wrongSignature)
	m.webhookFailures.WithLabelValues(failedProcessing)
	m.registry.MustRegister(m.requests, m.webhookFailures, metrics.NewBuildInfo("svc_cloud", program.Version, cloudapi.ContractVersion))
	return m
}

func (m *serviceMetrics) handler(logger *slog.Logger) http.Handler {
	return metrics.NewHandler(m.registry, logger)
}

// observer returns the function that records each request.
func (m *serviceMetrics) observer(document *oapi.Document) func(*http.Request, string, int, time.Duration) {
	return func(r *http.Request, route string, status int, took time.Duration) {
		operation := document.OperationID(r.Method, route)
		if operation == "" {
			operation = unknownOperation
		}
		metrics.Observe(r.Context(), m.requests.WithLabelValues(operation, strconv.Itoa(status)), took)
	}
}

// countedEvents counts the events of the payment provider that were not accepted.
type countedEvents struct {
	*billing.Service
	failures *prometheus.CounterVec
}

// Receive implements the interface of rest.StripeWebhook.
func (e countedEvents) Receive(ctx context.Context, payload []byte, signature string) error {
	err := e.Service.Receive(ctx, payload, signature)
	switch {
	case err == nil, fault.Is(err, fault.NotFound): // no payment provider
	case fault.Is(err, fault.Unauthenticated):
		e.failures.WithLabelValues(wrongSignature).Inc()
	default:
		e.failures.WithLabelValues(failedProcessing).Inc()
	}
	return err
}

// The maximum age of what a scrape reads from the database, and the timeout of reading it.
const (
	statePeriod  = 10 * time.Second
	stateTimeout = 3 * time.Second
)

// stateCollector reads the state of the services when it is scraped.
type stateCollector struct {
	licenses *license.Service
	pools    map[string]*sqlx.DB
	state    *httpd.Cache[databaseState]

	queryErrors                                  *prometheus.CounterVec
	slots, machines, mailOldest, pool, poolWait  *prometheus.Desc
	reclaimed, reaperLastSuccess, counterRepairs *prometheus.Desc
}

// databaseState is what was read from the database; nil where the query failed or took too long.
type databaseState struct {
	slots, machines license.States
	mailOldest      *time.Duration
}

func newStateCollector(p *services, logger *slog.Logger) *stateCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("svc_cloud_"+name, help, labels, nil)
	}
	c := &stateCollector{
		licenses: p.licenses,
		pools: map[string]*sqlx.DB{
			"tenants": p.pools.tenants, "system": p.pools.system, "launches": p.pools.launches, "configs": p.pools.configs,
		},
		queryErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_cloud_metrics_query_errors_total", Help: "Failed database queries for metrics; the metrics of a failed query are missing.",
		}, []string{"query"}),
		slots:             describe("slots", "License slots that are taken, by state, in the whole database.", "state"),
		machines:          describe("machines", "Workers by state, in the whole database.", "state"),
		mailOldest:        describe("mail_oldest_seconds", "Age of the oldest mail that is not sent, in the whole database; 0 without one."),
		pool:              describe("db_pool", "Database connections of a pool by state: in_use, idle, and the maximum (max).", "pool", "state"),
		poolWait:          describe("db_wait_seconds", "Waits for a free connection of a pool: their number and their total duration.", "pool"),
		reclaimed:         describe("reclaimed_total", "Slots released because their lease expired."),
		reaperLastSuccess: describe("reaper_last_success_timestamp_seconds", "When the reaper of this replica last succeeded; missing before the first time."),
		counterRepairs:    describe("audit_counter_repairs_total", "License counters that the audit repaired."),
	}
	c.state = httpd.NewCache(statePeriod, stateTimeout, databaseState{}, func(ctx context.Context) (state databaseState) {
		query := func(name string, run func() error) {
			if err := run(); err != nil {
				c.queryErrors.WithLabelValues(name).Inc()
				logger.WarnContext(ctx, "failed to read metrics from the database", "query", name, "error", err)
			}
		}
		query("slots", func() (err error) { state.slots, err = p.licenses.SlotStates(ctx); return err })
		query("machines", func() (err error) { state.machines, err = p.licenses.MachineStates(ctx); return err })
		query("mail", func() error {
			age, err := p.outbox.OldestQueued(ctx)
			if err == nil {
				state.mailOldest = &age
			}
			return err
		})
		return state
	})
	for _, query := range []string{"slots", "machines", "mail"} {
		c.queryErrors.WithLabelValues(query)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.slots, c.machines, c.mailOldest, c.pool, c.poolWait, c.reclaimed, c.reaperLastSuccess, c.counterRepairs,
	} {
		ch <- desc
	}
	c.queryErrors.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	state := c.state.Get(context.Background())
	for name, count := range state.slots {
		gauge(c.slots, float64(count), name)
	}
	for name, count := range state.machines {
		gauge(c.machines, float64(count), name)
	}
	if state.mailOldest != nil {
		gauge(c.mailOldest, state.mailOldest.Seconds())
	}
	for name, pool := range c.pools {
		stats := pool.Stats()
		gauge(c.pool, float64(stats.InUse), name, "in_use")
		gauge(c.pool, float64(stats.Idle), name, "idle")
		gauge(c.pool, float64(stats.MaxOpenConnections), name, "max")
		ch <- prometheus.MustNewConstSummary(c.poolWait, uint64(stats.WaitCount), stats.WaitDuration.Seconds(), nil, name)
	}
	totals := c.licenses.Totals()
	ch <- prometheus.MustNewConstMetric(c.reclaimed, prometheus.CounterValue, float64(totals.Lapsed))
	ch <- prometheus.MustNewConstMetric(c.counterRepairs, prometheus.CounterValue, float64(totals.Repaired))
	if lastSuccess := c.licenses.ReapedAt(); !lastSuccess.IsZero() {
		gauge(c.reaperLastSuccess, float64(lastSuccess.UnixNano())/float64(time.Second))
	}
	c.queryErrors.Collect(ch)
}
