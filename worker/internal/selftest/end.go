package selftest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// markEndRequested records that the end is requested now.
func (t *scenarioRun) markEndRequested() {
	t.endRequestedAt = time.Now()
	t.log.update(t.expected, func(e *expectation) { e.endRequestedAt = t.endRequestedAt })
}

// kill ends the session with DELETE.
func (t *scenarioRun) kill(ctx context.Context) error {
	t.markEndRequested()
	answer, err := t.worker.api.KillBrowserSessionWithResponse(ctx, t.session.Id)
	if err != nil {
		return err
	}
	if answer.JSON200 == nil {
		return fmt.Errorf("unexpected DELETE response %s: %s", answer.Status(), answer.Body)
	}
	return nil
}

// waitForEnd waits until the session has ended as expected and its resources are
// released.
func (t *scenarioRun) waitForEnd(ctx context.Context) error {
	var last workerapi.BrowserSession
	for {
		var err error
		if last, err = t.getSession(ctx, t.session.Id); err != nil {
			return err
		}
		if last.Status != sharedapi.SessionStatusRunning {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("session %s did not end: %w", t.session.Id, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.log.recordDuration(phaseEnded, time.Since(t.endRequestedAt))
	t.recordTimeline(last)
	if last.EndReason == nil || !slices.Contains(t.scenario.reasons, string(*last.EndReason)) {
		return fmt.Errorf("session %s ended %s for %v, want one of %v", t.session.Id, last.Status, value(last.EndReason), t.scenario.reasons)
	}
	left := waitUntilEmpty(t.CleanupTimeout, t.leftovers)
	if len(left) > 0 {
		return fmt.Errorf("session %s has ended but leaked %s", t.session.Id, strings.Join(left, ", "))
	}
	t.log.recordDuration(phaseCleaned, time.Since(t.endRequestedAt))
	return nil
}

// leftovers returns the launch's port and directory if they still exist.
func (t *scenarioRun) leftovers() []string {
	var found []string
	if port := t.session.DebugPort; port != nil {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(*port))), time.Second) //nolint:noctx // has a timeout
		if err == nil {
			_ = conn.Close()
			found = append(found, "port "+strconv.Itoa(int(*port)))
		}
	}
	dir := filepath.Join(t.worker.launchesDir(), t.session.LaunchId.String())
	if _, err := os.Stat(dir); err == nil {
		found = append(found, dir)
	}
	return found
}

// recordTimeline records the worker's timeline steps as phases, each since the
// step before.
func (t *scenarioRun) recordTimeline(s workerapi.BrowserSession) {
	names := map[string]string{
		"authorized": phaseAuthorize, "claimed": phaseConfigured, "started": phaseStarted, "answered": phaseAnswered,
		"ready": phaseReady, "reported": phaseReported,
	}
	for i, step := range s.Timeline[min(1, len(s.Timeline)):] {
		if name := names[string(step.Step)]; name != "" {
			t.log.recordDuration(name, time.Duration((step.AfterMs-s.Timeline[i].AfterMs)*float64(time.Millisecond)))
		}
	}
}
