package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cloud/report"
)

// startReporting checks the contract version of the cloud, then delivers reports
// and heartbeats until stop is called. An unreachable cloud does not prevent the
// worker from starting.
func (w *worker) startReporting(ctx context.Context, logger *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.cloud.CheckContract(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "failed to check the contract version of the cloud at startup", "error", err)
		}
		if w.config.organizationKey() != "" {
			var reclaiming sync.WaitGroup
			defer reclaiming.Wait()
			reclaiming.Go(func() { report.ReclaimStale(ctx, w.cloud, logger) })
		}
		w.reports.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// startFileSweep removes expired files until stop is called.
func (w *worker) startFileSweep() (stop func()) {
	return background(w.files.Run)
}

// background runs a function until stop is called, which closes its channel.
func background(run func(done <-chan struct{})) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		run(done)
	}()
	return func() { close(done); <-ended }
}

// drainPollInterval is how often a draining worker checks for running sessions.
const drainPollInterval = 100 * time.Millisecond

// drain refuses new launches and waits until all sessions have ended or timeout
// has passed.
func (w *worker) drain(timeout time.Duration, logger *slog.Logger) {
	w.launches.Retire()
	running, launching := w.launches.Counts()
	if timeout <= 0 || running+launching == 0 {
		return
	}
	logger.Info("draining: waiting for running sessions to end", "sessions", running, "timeout", timeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for running+launching > 0 {
		select {
		case <-timer.C:
			logger.Warn("drain timeout reached: stopping the remaining sessions", "sessions", running)
			return
		case <-time.After(drainPollInterval):
			running, launching = w.launches.Counts()
		}
	}
}

// Timeouts of the steps of a shutdown, and how often it reports that it waits for saves.
const (
	cancelTimeout  = 5 * time.Second
	flushTimeout   = 5 * time.Second
	tracesTimeout  = 5 * time.Second
	reportInterval = 10 * time.Second
)

// shutdown stops the browsers and delivers reports, each within a timeout.
func (w *worker) shutdown(logger *slog.Logger) {
	ctx, cancel := context.WithDeadline(context.Background(), w.saveDeadline())
	defer cancel()
	w.endSessions(ctx, logger)
	w.endRecordings(ctx)
	ctx, cancel = context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	w.reports.Flush(ctx)
}

// closeTraces delivers the last traces.
func (w *worker) closeTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := w.traces.Close(ctx); err != nil {
		w.logger.Warn("failed to deliver traces at shutdown", "error", err)
	}
}

// saveDeadline returns when a shutdown cancels saves and uploads: SAVE_TIMEOUT after the
// drain.
func (w *worker) saveDeadline() time.Time {
	began := w.drainedAt // requests in progress were completed since then
	if began.IsZero() {
		began = time.Now()
	}
	return began.Add(w.config.SaveTimeout)
}

// endSessions stops the browsers and waits until the data of their profiles is saved. When
// ctx ends it cancels the saves.
func (w *worker) endSessions(ctx context.Context, logger *slog.Logger) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reporting sync.WaitGroup
	reporting.Go(func() { w.reportSaves(ctx, logger) })
	err := w.launches.Shutdown(ctx)
	cancel()
	reporting.Wait()
	if err == nil {
		return
	}
	w.launches.CancelSaves()
	ctx, cancel = context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	if err := w.launches.Wait(ctx); err != nil {
		logger.Error("failed to stop browsers at shutdown", "error", err)
	}
}

// reportSaves logs regularly which saves the shutdown waits for, until ctx ends.
func (w *worker) reportSaves(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if saving := w.launches.SavesInProgress(); len(saving) > 0 {
			deadline, _ := ctx.Deadline()
			logger.Info("waiting until profile data is saved", "saves", len(saving), "oldest", saving[0].ProfileID,
				"savingFor", time.Since(saving[0].Since).Round(time.Second), "canceledIn", time.Until(deadline).Round(time.Second))
		}
	}
}

// close closes all parts.
func (w *worker) close(logger *slog.Logger) {
	if err := w.closers.Close(); err != nil {
		logger.Error("failed to close parts of the worker", "error", err)
	}
	logger.Info("worker stopped")
}
