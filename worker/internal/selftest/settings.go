package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

// Time zone and language of the test profile.
const (
	testTimezone = "Asia/Tokyo"
	testLanguage = "fr-FR"
)

func setTokyoProfile(_ *scenarioRun, c *cloudapi.ProfileConfig) {
	c.TimezoneId, c.Locale = new(testTimezone), new(testLanguage)
}

func checkTokyoSettings(ctx context.Context, t *scenarioRun) error {
	return t.launchAndEvaluate(ctx, "Intl.DateTimeFormat().resolvedOptions().timeZone + ' ' + navigator.language", testTimezone+" "+testLanguage)
}

func launchBySpec(ctx context.Context, t *scenarioRun) error {
	version := int32(t.version)
	// The cloud creates the profile for the spec, so the expectation applies to that
	// profile.
	bySpec := func(r *workerapi.LaunchProfileRequest) {
		r.ProfileId, r.Spec = nil, &sharedapi.LaunchSpec{BrowserVersion: &version, TimezoneId: new(testTimezone)}
	}
	if err := t.launch(ctx, bySpec); err != nil {
		return err
	}
	t.log.update(t.expected, func(e *expectation) { e.profile = t.session.ProfileId })
	return t.evaluateAndEnd(ctx, "Intl.DateTimeFormat().resolvedOptions().timeZone", testTimezone)
}

// launchAndEvaluate launches a browser and checks the result of a script.
func (t *scenarioRun) launchAndEvaluate(ctx context.Context, script, want string) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	return t.evaluateAndEnd(ctx, script, want)
}

// evaluateAndEnd checks the result of a script in a page and ends the browser.
func (t *scenarioRun) evaluateAndEnd(ctx context.Context, script, want string) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.disconnect()
	page, err := c.newTab(ctx)
	if err != nil {
		return err
	}
	var got string
	err = page.open(ctx, t.site.pageURL(t.token), t.token)
	if err == nil {
		err = page.evaluate(ctx, script, &got)
	}
	if err == nil && got != want {
		err = fmt.Errorf("%s is %q, want %q", script, got, want)
	}
	return errors.Join(err, t.kill(ctx), t.waitForEnd(ctx))
}

func setProxyProfile(t *scenarioRun, c *cloudapi.ProfileConfig) {
	c.Proxy = &cloudapi.LaunchProxy{
		Server: fmt.Sprintf("http://127.0.0.1:%d", t.site.proxyPort), Username: new(proxyUser), Password: new(proxyPassword),
	}
}

func checkProxy(ctx context.Context, t *scenarioRun) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.disconnect()
	page, err := c.newTab(ctx)
	if err != nil {
		return err
	}
	if err := page.open(ctx, t.site.proxiedURL(t.token), t.token); err != nil {
		return err
	}
	if t.site.proxiedCount(t.token) == 0 {
		return errors.New("the page was loaded without the proxy")
	}
	return errors.Join(t.kill(ctx), t.waitForEnd(ctx))
}

// checkPersistence launches twice: data that a page stores must be there the
// second time.
func checkPersistence(ctx context.Context, t *scenarioRun) error {
	steps := []struct{ script, want string }{
		{"localStorage.setItem('seen', '" + t.token + "'); localStorage.getItem('seen')", t.token},
		{"localStorage.getItem('seen')", t.token},
	}
	for i, step := range steps {
		if err := t.launchAndEvaluate(ctx, step.script, step.want); err != nil {
			return fmt.Errorf("launch %d: %w", i+1, err)
		}
	}
	return nil
}

func noFreeSlot(ctx context.Context, t *scenarioRun) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.JSON(http.StatusPaymentRequired,
		`{"success":true,"data":{"allowed":false,"reason":"concurrency_limit","current":1,"limit":1}}`))
	return t.expectRefusal(ctx, http.StatusPaymentRequired)
}

func cloudUnavailable(ctx context.Context, t *scenarioRun) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.Failure(fault.Unavailable, "The cloud is unavailable."))
	return t.expectRefusal(ctx, http.StatusServiceUnavailable)
}

func cloudResets(ctx context.Context, t *scenarioRun) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.Reset)
	return t.expectRefusal(ctx, http.StatusServiceUnavailable)
}

// startRefused refuses the start report, the only refusal after the browser has
// started.
func startRefused(ctx context.Context, t *scenarioRun) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Start, fakecloud.Failure(fault.PaymentRequired, "All slots of the organization are in use."))
	t.markEndRequested()
	answer, err := t.requestLaunch(ctx)
	if err != nil {
		return err
	}
	if answer.StatusCode() != http.StatusPaymentRequired {
		return fmt.Errorf("the launch was answered %s, want 402: %s", answer.Status(), answer.Body)
	}
	t.log.recordDuration(phaseRefused, time.Since(t.launchedAt))
	return nil
}

func proxyUnreachable(ctx context.Context, t *scenarioRun) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	return t.expectRefusal(ctx, http.StatusBadRequest, withProxyOverride(port, ""))
}

func proxyRefuses(ctx context.Context, t *scenarioRun) error {
	return t.expectRefusal(ctx, http.StatusBadRequest, withProxyOverride(t.site.proxyPort, "wrong"))
}

func withProxyOverride(port int, password string) func(*workerapi.LaunchProfileRequest) {
	return func(r *workerapi.LaunchProfileRequest) {
		settings := map[string]string{"server": fmt.Sprintf("http://127.0.0.1:%d", port)}
		if password != "" {
			settings["username"], settings["password"] = proxyUser, password
		}
		r.ProxyOverride, _ = json.Marshal(settings) //nolint:errchkjson // encoding strings never fails
	}
}

// notInstalled requests a version that is not installed, once with a profile,
// whose version only the cloud knows, and once with a spec.
func notInstalled(ctx context.Context, t *scenarioRun) error {
	const never = 1
	id := t.cloud.Profile(never)
	t.log.update(t.expected, func(e *expectation) { e.profile = id })
	err := t.expectRefusal(ctx, http.StatusBadRequest, func(r *workerapi.LaunchProfileRequest) { r.ProfileId = &id })
	version := int32(never)
	return errors.Join(err, t.expectRefusal(ctx, http.StatusBadRequest, func(r *workerapi.LaunchProfileRequest) {
		r.ProfileId, r.Spec = nil, &sharedapi.LaunchSpec{BrowserVersion: &version}
	}))
}
