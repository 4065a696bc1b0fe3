package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

// scenarioRun is one run of a scenario.
type scenarioRun struct {
	*run
	scenario scenario
	rng      *rand.Rand
	token    string // token of the run's page
	profile  uuid.UUID
	settings workerapi.BrowserSettings // of the launch
	expected *expectation

	session        workerapi.BrowserSession
	launchedAt     time.Time // when the launch was requested
	answered       bool      // the browser has answered the client
	endRequestedAt time.Time // when the end was requested
}

func (r *run) newScenarioRun(w scenario, rng *rand.Rand) *scenarioRun {
	t := &scenarioRun{run: r, scenario: w, rng: rng, token: uuid.NewString()}
	headless := !r.hasDisplay || rng.IntN(2) == 0
	switch w.display {
	case headlessOnly:
		headless = true
	case headfulOnly:
		headless = false
	}
	t.settings.Headless, t.settings.TimeoutMs = &headless, new(int32(90_000)) // generous: the test is for leaks, not for speed
	if !w.persist {                                                           // which only the complete browser supports
		t.settings.Engine = &r.engine
	}
	t.profile = r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) {
		c.Persist = w.persist
		if w.profile != nil {
			w.profile(t, c)
		}
	})
	t.expected = &expectation{scenario: w.name, profile: t.profile, launches: w.launches, reasons: w.reasons, endOptional: w.endOptional}
	r.log.expect(t.expected)
	return t
}

// scenarioTimeout limits one scenario.
const scenarioTimeout = 2 * time.Minute

// execute runs the scenario. After an error it kills the session and disables
// its expectation.
func (t *scenarioRun) execute(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	defer cancel()
	err := t.scenario.run(ctx, t)
	if err == nil {
		t.log.count(t.label(t.scenario.name))
		return nil
	}
	t.log.update(t.expected, func(e *expectation) { e.ignored = true })
	if t.session.Id != uuid.Nil {
		_, _ = t.worker.api.KillBrowserSessionWithResponse(context.WithoutCancel(ctx), t.session.Id)
	}
	return fmt.Errorf("%w (page %s)", err, t.token)
}

// launch launches a browser over REST.
func (t *scenarioRun) launch(ctx context.Context, change ...func(*workerapi.LaunchProfileRequest)) error {
	answer, err := t.requestLaunch(ctx, change...)
	if err != nil {
		return err
	}
	if answer.JSON201 == nil {
		return fmt.Errorf("unexpected launch response %s: %s", answer.Status(), answer.Body)
	}
	t.session = answer.JSON201.Data
	t.log.recordDuration(phaseLaunched, time.Since(t.launchedAt))
	t.log.count(t.label("launch over REST"))
	return nil
}

// requestLaunch sends a launch request and returns any response.
func (t *scenarioRun) requestLaunch(ctx context.Context, change ...func(*workerapi.LaunchProfileRequest)) (*workerapi.LaunchProfileResult, error) {
	request := workerapi.LaunchProfileRequest{ProfileId: &t.profile, Browser: &t.settings}
	for _, apply := range change {
		apply(&request)
	}
	t.launchedAt, t.answered = time.Now(), false
	return t.worker.api.LaunchProfileWithResponse(ctx, request)
}

// expectRefusal sends a launch request that must be refused with this status and
// start nothing.
func (t *scenarioRun) expectRefusal(ctx context.Context, status int, change ...func(*workerapi.LaunchProfileRequest)) error {
	t.settings.StartUrls = &sharedapi.StartUrls{t.site.pageURL(t.token)}
	t.settings.Args = &sharedapi.BrowserArgs{"--selftest=" + t.token} // identifies the browser
	started := t.watchStarts()
	answer, err := t.requestLaunch(ctx, change...)
	found := started()
	if err != nil {
		return err
	}
	t.log.recordDuration(phaseRefused, time.Since(t.launchedAt))
	if answer.JSON201 != nil {
		t.session = answer.JSON201.Data
		return errors.New("the launch was not refused")
	}
	if found != "" {
		return fmt.Errorf("a refused launch started the process %s", found)
	}
	var failure sharedapi.ErrorResponse
	err = json.Unmarshal(answer.Body, &failure)
	if answer.StatusCode() != status || err != nil || bool(failure.Success) || failure.Error.Code == "" {
		return fmt.Errorf("the launch was answered %s, want a refusal with %d: %s", answer.Status(), status, answer.Body)
	}
	return t.checkNoVisits()
}

// watchStarts looks for a browser process with the run's token until the
// returned function is called, which returns what it found.
func (t *scenarioRun) watchStarts() (stop func() string) {
	done, found := make(chan struct{}), make(chan string, 1)
	go func() {
		for {
			for _, p := range descendants(t.worker.pid()) {
				if strings.Contains(p.command, t.token) {
					found <- p.String()
					return
				}
			}
			select {
			case <-done:
				found <- ""
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() string { close(done); return <-found }
}

// checkNoVisits fails if a browser has visited the run's page.
func (t *scenarioRun) checkNoVisits() error {
	if n := t.site.visitCount(t.token); n > 0 {
		return fmt.Errorf("a refused launch visited its page %d times", n)
	}
	return nil
}

// launchBySocket launches over /launch. address is that of the worker or of a proxy
// to it.
func (t *scenarioRun) launchBySocket(ctx context.Context, address string) (*client, error) {
	env, err := json.Marshal(map[string]any{"profileId": t.profile, "browser": t.settings})
	if err != nil {
		return nil, err
	}
	t.launchedAt = time.Now()
	c, err := dial(ctx, address+"/launch?env="+url.QueryEscape(string(env)), http.Header{"X-Api-Key": {fakecloud.Key}})
	if err != nil {
		return nil, err
	}
	t.log.recordDuration(phaseLaunched, time.Since(t.launchedAt))
	t.log.count(t.label("launch over /launch"))
	var info struct{ SessionID string }
	if err := c.Call(ctx, "", "Svc.getSessionInfo", nil, &info); err != nil {
		c.disconnect()
		return nil, err
	}
	answered := t.firstAnswer(ctx, c)
	id, err := uuid.Parse(info.SessionID)
	if err == nil {
		t.session, err = t.getSession(ctx, id)
	}
	if err != nil {
		c.disconnect()
		return nil, err
	}
	t.recordFirstAnswer(answered)
	return c, nil
}

// connect connects to the browser launched over REST.
func (t *scenarioRun) connect(ctx context.Context) (*client, error) {
	if t.session.WebSocketDebuggerUrl == nil {
		return nil, errors.New("the session has no WebSocket URL")
	}
	c, err := dial(ctx, *t.session.WebSocketDebuggerUrl, nil)
	if err == nil && !t.answered {
		t.recordFirstAnswer(t.firstAnswer(ctx, c))
	}
	return c, err
}

// firstAnswer sends a call to the browser and returns the time since the launch.
// The next call reports errors.
func (t *scenarioRun) firstAnswer(ctx context.Context, c *client) time.Duration {
	_ = c.Call(ctx, "", "Browser.getVersion", nil, nil)
	return time.Since(t.launchedAt)
}

func (t *scenarioRun) recordFirstAnswer(d time.Duration) {
	t.answered = true
	phase := phaseFirstCold
	if t.session.Start.Warm {
		phase = phaseFirstWarm
	}
	t.log.recordDuration(phase, d)
}

// getSession gets a session from the worker.
func (t *scenarioRun) getSession(ctx context.Context, id uuid.UUID) (workerapi.BrowserSession, error) {
	answer, err := t.worker.api.GetBrowserSessionWithResponse(ctx, id)
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if answer.JSON200 == nil {
		return workerapi.BrowserSession{}, fmt.Errorf("unexpected session response %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200.Data, nil
}

func (t *scenarioRun) label(what string) string {
	if value(t.settings.Headless) {
		return what + ", headless"
	}
	return what + ", headful"
}

// value dereferences a pointer; nil is the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
