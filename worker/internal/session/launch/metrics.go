package launch

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/session"
)

// launchResult is the result of a launch.
type launchResult string

const (
	launchSucceeded launchResult = "success"
	launchRefused   launchResult = "refused"      // by the cloud: no slot
	notAdmitted     launchResult = "not_admitted" // this worker is full, draining or stopping
	launchInvalid   launchResult = "invalid"      // the request or the caller's key is wrong
	launchGivenUp   launchResult = "canceled"     // by the client
	launchFailed    launchResult = "failed"
)

// startKind is how a launch got its browser.
type startKind string

const (
	warmStart startKind = "warm"
	coldStart startKind = "cold"
	noStart   startKind = "none" // the launch ended before
)

// totalStep is the name of the step for the complete launch.
const totalStep = "total"

// Metrics measures launches and sessions.
type Metrics struct {
	launches    *prometheus.CounterVec
	steps       *prometheus.HistogramVec
	ends        *prometheus.CounterVec
	saves       *prometheus.CounterVec
	queueLength prometheus.Gauge
	queueWait   prometheus.Histogram

	handovers     *prometheus.CounterVec
	openHandovers prometheus.Gauge
}

// launchBuckets are the limits for durations of launches and of their steps, in seconds.
var launchBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .2, .35, .5, .75, 1, 2, 5, 10, 30, 60}

// saved is the result of browser data that was saved; others are the reason why it was not.
const saved = "saved"

// NewMetrics registers the metrics of launches and sessions.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		launches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_launches_total", Help: "Launches by result and by how the browser was started.",
		}, []string{"result", "start"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_worker_launch_duration_seconds", Help: "Duration of the steps of launches, each since the step before, and of successful launches (total).",
			Buckets: launchBuckets,
		}, []string{"step"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_session_ends_total", Help: "Ended sessions by reason.",
		}, []string{"reason"}),
		saves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_profile_saves_total", Help: "Ended sessions of persistent profiles, by whether the browser data was saved.",
		}, []string{"result"}),
		queueLength: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svc_worker_queue_length", Help: "Launches that wait for this machine or for a slot (waitSeconds).",
		}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "svc_worker_queue_wait_seconds", Help: "Time that launches with waitSeconds waited for this machine and for a slot.",
			Buckets: launchBuckets,
		}),
		handovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_handovers_total", Help: "Ended handovers of browsers to persons, by outcome.",
		}, []string{"outcome"}),
		openHandovers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svc_worker_handovers_open", Help: "Open handovers of browsers to persons.",
		}),
	}
	// All series exist from the start, so that their first increase is visible.
	for _, result := range []launchResult{launchSucceeded, launchRefused, notAdmitted, launchInvalid, launchGivenUp, launchFailed} {
		for _, start := range []startKind{warmStart, coldStart, noStart} {
			m.launches.WithLabelValues(string(result), string(start))
		}
	}
	for _, step := range []session.StepName{session.Authorized, session.Claimed, session.Started, session.Answered, session.Ready, session.Reported, totalStep} {
		m.steps.WithLabelValues(string(step))
	}
	for _, reason := range []session.EndReason{
		session.ClientClose, session.Idle, session.MaxDuration, session.NeverConnected, session.Crash, session.OutOfMemory, session.ByRequest,
		session.Unresponsive, session.License, session.Drain, session.Unknown,
	} {
		m.ends.WithLabelValues(string(reason))
	}
	m.saves.WithLabelValues(saved)
	for _, reason := range []session.DataNotSavedReason{
		session.DataTooLarge, session.DataUncleanEnd, session.DataDiskFull, session.DataTimeout, session.DataPending, session.DataError,
	} {
		m.saves.WithLabelValues(string(reason))
	}
	for _, outcome := range []handover.Outcome{handover.Done, handover.TimedOut, handover.Canceled, handover.BrowserEnded} {
		m.handovers.WithLabelValues(string(outcome))
	}
	r.MustRegister(m.launches, m.steps, m.ends, m.saves, m.queueLength, m.queueWait, m.handovers, m.openHandovers)
	return m
}

func (m *Metrics) countLaunch(result launchResult, start startKind) {
	m.launches.WithLabelValues(string(result), string(start)).Inc()
}

func (m *Metrics) observeStep(ctx context.Context, step string, took time.Duration) {
	metrics.Observe(ctx, m.steps.WithLabelValues(step), took)
}

func (m *Metrics) countEnd(end session.End) {
	m.ends.WithLabelValues(string(end.Reason)).Inc()
	if end.SaveResult != nil {
		m.saves.WithLabelValues(cmp.Or(string(end.SaveResult.Reason), saved)).Inc()
	}
}

// beginWait counts a waiting launch until the returned function is called.
func (m *Metrics) beginWait() (end func()) {
	m.queueLength.Inc()
	return m.queueLength.Dec
}

// observeWait implements Options.Waited.
func (m *Metrics) observeWait(ctx context.Context, wait time.Duration, _ bool) {
	metrics.Observe(ctx, m.queueWait, wait)
}

// failure returns the result of a launch that failed with err.
func (a *attempt) failure(ctx context.Context, err error) launchResult {
	switch {
	case a.full:
		return notAdmitted
	case errors.Is(ctx.Err(), context.Canceled):
		return launchGivenUp
	case fault.Is(err, fault.PaymentRequired):
		return launchRefused
	case fault.From(err).Kind.Status() < http.StatusInternalServerError:
		return launchInvalid
	default:
		return launchFailed
	}
}
