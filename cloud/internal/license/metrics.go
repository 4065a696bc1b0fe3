package license

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/metrics"
)

// Metrics measures the authorizes of a replica.
type Metrics struct {
	verdicts *prometheus.CounterVec
	seconds  prometheus.Histogram
	batches  prometheus.Histogram
}

// failure is why an authorize was neither granted nor refused.
type failure string

const (
	errorCanceled        failure = "canceled" // by the worker
	errorUnauthenticated failure = "unauthenticated"
	errorConflict        failure = "conflict"
	errorInvalid         failure = "invalid" // any other error of the request
	errorUnavailable     failure = "unavailable"
	errorInternal        failure = "internal"
)

// The verdicts.
const (
	verdictAllowed = "allowed"
	verdictRefused = "refused"
	verdictError   = "error"
)

// NewMetrics registers the metrics of authorizes.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_cloud_authorize_total", Help: "Authorizes by verdict, with the reason of a refusal or an error.",
		}, []string{"verdict", "reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "svc_cloud_authorize_seconds", Help: "Duration of authorizes in the license accounting, of all verdicts.",
			Buckets: []float64{.00025, .0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2.5, 5, 10},
		}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "svc_cloud_batch_size", Help: "Authorizes that one statement answered together.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 500},
		}),
	}
	// All series exist from the start, so that their first increase is visible.
	m.verdicts.WithLabelValues(verdictAllowed, "")
	for _, reason := range []Reason{ConcurrencyLimit, ProfileLimit} {
		m.verdicts.WithLabelValues(verdictRefused, string(reason))
	}
	for _, reason := range []failure{errorCanceled, errorUnauthenticated, errorConflict, errorInvalid, errorUnavailable, errorInternal} {
		m.verdicts.WithLabelValues(verdictError, string(reason))
	}
	r.MustRegister(m.verdicts, m.seconds, m.batches)
	return m
}

// observe records the result of an authorize.
func (m *Metrics) observe(ctx context.Context, grant Grant, err error, took time.Duration) {
	metrics.Observe(ctx, m.seconds, took)
	switch {
	case err != nil:
		m.verdicts.WithLabelValues(verdictError, string(failureOf(ctx, err))).Inc()
	case grant.Allowed:
		m.verdicts.WithLabelValues(verdictAllowed, "").Inc()
	default:
		m.verdicts.WithLabelValues(verdictRefused, string(grant.Reason)).Inc()
	}
}

func failureOf(ctx context.Context, err error) failure {
	_, outage := pg.OutageOf(err)
	kind := fault.From(err).Kind
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errorCanceled
	case kind == fault.Unauthenticated:
		return errorUnauthenticated
	case kind == fault.Conflict:
		return errorConflict
	case kind.Status() < 500:
		return errorInvalid
	case outage, kind == fault.Unavailable, errors.Is(err, context.DeadlineExceeded):
		return errorUnavailable
	default:
		return errorInternal
	}
}

// States are numbers of all organizations by state.
type States map[string]int

// SlotStates counts the slots that are taken.
func (s *Service) SlotStates(ctx context.Context) (States, error) {
	return s.countStates(ctx, []string{"reserved", "running"},
		`SELECT state, count(*) AS count FROM license_slots WHERE released_at IS NULL GROUP BY state`)
}

// MachineStates counts the machines.
func (s *Service) MachineStates(ctx context.Context) (States, error) {
	// The organization, $1, is unused: machineTables takes its periods as $2 and $3.
	return s.countStates(ctx, []string{"online", "draining", "offline"},
		`SELECT `+machineState+` AS state, count(*) AS count `+machineTables+` WHERE $1::uuid IS NULL GROUP BY 1`,
		nil, longestPause.Seconds(), HeartbeatTTL.Seconds())
}

// countStates runs a query for the numbers of the states; states without rows are 0.
func (s *Service) countStates(ctx context.Context, all []string, query string, args ...any) (States, error) {
	var rows []struct {
		State string
		Count int
	}
	if err := s.db.db.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("count by state: %w", err)
	}
	states := States{}
	for _, state := range all {
		states[state] = 0
	}
	for _, row := range rows {
		states[row.State] = row.Count
	}
	return states, nil
}
