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
	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

// trial is one way, gone once.
type trial struct {
	*run
	way      way
	dice     *rand.Rand
	token    string // of its page
	profile  uuid.UUID
	settings workerapi.BrowserSettings // of the launch
	expected *expectation

	session  workerapi.BrowserSession
	began    time.Time // when the launch was asked for
	answered bool      // the browser has, to the client
	at       time.Time // when its end was asked for
}

func (r *run) newTrial(w way, dice *rand.Rand) *trial {
	t := &trial{run: r, way: w, dice: dice, token: uuid.NewString()}
	headless := !r.canShow || dice.IntN(2) == 0
	switch w.screen {
	case headlessOnly:
		headless = true
	case headfulOnly:
		headless = false
	}
	t.settings.Headless, t.settings.TimeoutMs = &headless, new(int32(90_000)) // leaks are looked for, not speed
	t.profile = r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) {
		c.Persist = w.persist
		if w.profile != nil {
			w.profile(t, c)
		}
	})
	t.expected = &expectation{way: w.name, profile: t.profile, launches: w.launches, reasons: w.reasons, silent: w.silent}
	r.book.expect(t.expected)
	return t
}

// trialTimeout bounds one way, whatever it waits for.
const trialTimeout = 2 * time.Minute

// walk goes the way. After an error nothing runs of it, and the books expect
// nothing.
func (t *trial) walk(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	err := t.way.play(ctx, t)
	if err == nil {
		t.book.did(t.kind(t.way.name))
		return nil
	}
	t.book.change(t.expected, func(e *expectation) { e.void = true })
	if t.session.Id != uuid.Nil {
		_, _ = t.worker.api.KillBrowserSessionWithResponse(context.WithoutCancel(ctx), t.session.Id)
	}
	return fmt.Errorf("%w (page %s)", err, t.token)
}

// launch asks for a browser over REST.
func (t *trial) launch(ctx context.Context, change ...func(*workerapi.LaunchProfileRequest)) error {
	answer, err := t.ask(ctx, change...)
	if err != nil {
		return err
	}
	if answer.JSON201 == nil {
		return fmt.Errorf("the launch was answered %s: %s", answer.Status(), answer.Body)
	}
	t.session = answer.JSON201.Data
	t.book.took(phaseLaunched, time.Since(t.began))
	t.book.did(t.kind("launch over REST"))
	return nil
}

// ask makes the request of launch, whatever it is answered.
func (t *trial) ask(ctx context.Context, change ...func(*workerapi.LaunchProfileRequest)) (*workerapi.LaunchProfileResult, error) {
	request := workerapi.LaunchProfileRequest{ProfileId: &t.profile, Browser: &t.settings}
	for _, apply := range change {
		apply(&request)
	}
	t.began, t.answered = time.Now(), false
	return t.worker.api.LaunchProfileWithResponse(ctx, request)
}

// refused makes a launch that is to be answered with that status, and to have
// started nothing.
func (t *trial) refused(ctx context.Context, status int, change ...func(*workerapi.LaunchProfileRequest)) error {
	t.settings.StartUrls = &sharedapi.StartUrls{t.site.address(t.token)}
	t.settings.Args = &sharedapi.BrowserArgs{"--selftest=" + t.token} // to know its browser by
	started := t.watchStarts()
	answer, err := t.ask(ctx, change...)
	found := started()
	if err != nil {
		return err
	}
	t.book.took(phaseRefused, time.Since(t.began))
	if answer.JSON201 != nil {
		t.session = answer.JSON201.Data
		return errors.New("the launch was not refused")
	}
	if found != "" {
		return fmt.Errorf("a refused launch started %s", found)
	}
	var failure sharedapi.ErrorResponse
	err = json.Unmarshal(answer.Body, &failure)
	if answer.StatusCode() != status || err != nil || bool(failure.Success) || failure.Error.Code == "" {
		return fmt.Errorf("the launch was answered %s, want a refusal with %d: %s", answer.Status(), status, answer.Body)
	}
	return t.visitedNothing()
}

// watchStarts looks for a browser that is started with the trial's token, until the returned function is called, which tells what was found.
func (t *trial) watchStarts() (stop func() string) {
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

// visitedNothing fails when a browser has been on the trial's page.
func (t *trial) visitedNothing() error {
	if n := t.site.visited(t.token); n > 0 {
		return fmt.Errorf("a refused launch visited its page %d times", n)
	}
	return nil
}

// launchBySocket launches over /launch; address is the worker's or that of a
// line to it.
func (t *trial) launchBySocket(ctx context.Context, address string) (*client, error) {
	env, err := json.Marshal(map[string]any{"profileId": t.profile, "browser": t.settings})
	if err != nil {
		return nil, err
	}
	t.began = time.Now()
	c, err := dial(ctx, address+"/launch?env="+url.QueryEscape(string(env)), http.Header{"X-Api-Key": {fakecloud.Key}})
	if err != nil {
		return nil, err
	}
	t.book.took(phaseLaunched, time.Since(t.began))
	t.book.did(t.kind("launch over /launch"))
	var info struct{ SessionID string }
	if err := c.Call(ctx, "", "Svc.getSessionInfo", nil, &info); err != nil {
		c.leave()
		return nil, err
	}
	answered := t.firstAnswer(ctx, c)
	id, err := uuid.Parse(info.SessionID)
	if err == nil {
		t.session, err = t.look(ctx, id)
	}
	if err != nil {
		c.leave()
		return nil, err
	}
	t.tookFirst(answered)
	return c, nil
}

// connect drives the browser that was launched over REST.
func (t *trial) connect(ctx context.Context) (*client, error) {
	if t.session.WebSocketDebuggerUrl == nil {
		return nil, errors.New("the session has no address")
	}
	c, err := dial(ctx, *t.session.WebSocketDebuggerUrl, nil)
	if err == nil && !t.answered {
		t.tookFirst(t.firstAnswer(ctx, c))
	}
	return c, err
}

// firstAnswer asks the browser something and returns the time since the launch.
// Whether it fails, the next call tells.
func (t *trial) firstAnswer(ctx context.Context, c *client) time.Duration {
	_ = c.Call(ctx, "", "Browser.getVersion", nil, nil)
	return time.Since(t.began)
}

func (t *trial) tookFirst(d time.Duration) {
	t.answered = true
	phase := phaseFirstCold
	if t.session.Start.Warm {
		phase = phaseFirstWarm
	}
	t.book.took(phase, d)
}

// look reads a session.
func (t *trial) look(ctx context.Context, id uuid.UUID) (workerapi.BrowserSession, error) {
	answer, err := t.worker.api.GetBrowserSessionWithResponse(ctx, id)
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if answer.JSON200 == nil {
		return workerapi.BrowserSession{}, fmt.Errorf("the session was answered %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200.Data, nil
}

func (t *trial) kind(what string) string {
	if value(t.settings.Headless) {
		return what + ", headless"
	}
	return what + ", headful"
}

// value is what a pointer points to; the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
