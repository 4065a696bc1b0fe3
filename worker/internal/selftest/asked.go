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
	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

// where and what a browser of these settings says it is.
const (
	zone     = "Asia/Tokyo"
	language = "fr-FR"
)

func inTokyo(_ *trial, c *cloudapi.ProfileConfig) {
	c.TimezoneId, c.Locale = new(zone), new(language)
}

func fromTokyo(ctx context.Context, t *trial) error {
	return t.asks(ctx, "Intl.DateTimeFormat().resolvedOptions().timeZone + ' ' + navigator.language", zone+" "+language)
}

func bySpec(ctx context.Context, t *trial) error {
	version := int32(t.version)
	// The cloud makes the profile: what is expected of this one is expected of that.
	bySpec := func(r *workerapi.LaunchProfileRequest) {
		r.ProfileId, r.Spec = nil, &sharedapi.LaunchSpec{BrowserVersion: &version, TimezoneId: new(zone)}
	}
	if err := t.launch(ctx, bySpec); err != nil {
		return err
	}
	t.book.change(t.expected, func(e *expectation) { e.profile = t.session.ProfileId })
	return t.finds(ctx, "Intl.DateTimeFormat().resolvedOptions().timeZone", zone)
}

// asks launches, and has a page find something out.
func (t *trial) asks(ctx context.Context, script, want string) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	return t.finds(ctx, script, want)
}

// finds has a page of the browser find something out, and ends the browser.
func (t *trial) finds(ctx context.Context, script, want string) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.leave()
	page, err := c.newTab(ctx)
	if err != nil {
		return err
	}
	var got string
	err = page.open(ctx, t.site.address(t.token), t.token)
	if err == nil {
		err = page.evaluate(ctx, script, &got)
	}
	if err == nil && got != want {
		err = fmt.Errorf("%s is %q, want %q", script, got, want)
	}
	return errors.Join(err, t.kill(ctx), t.over(ctx))
}

func proxied(t *trial, c *cloudapi.ProfileConfig) {
	c.Proxy = &cloudapi.LaunchProxy{
		Server: fmt.Sprintf("http://127.0.0.1:%d", t.site.proxy), Username: new(proxyUser), Password: new(proxyPassword),
	}
}

func throughProxy(ctx context.Context, t *trial) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.leave()
	page, err := c.newTab(ctx)
	if err != nil {
		return err
	}
	if err := page.open(ctx, t.site.distant(t.token), t.token); err != nil {
		return err
	}
	if t.site.passed(t.token) == 0 {
		return errors.New("the page came without the proxy")
	}
	return errors.Join(t.kill(ctx), t.over(ctx))
}

// kept launches twice: what a page has stored is there the second time.
func kept(ctx context.Context, t *trial) error {
	steps := []struct{ script, want string }{
		{"localStorage.setItem('seen', '" + t.token + "'); localStorage.getItem('seen')", t.token},
		{"localStorage.getItem('seen')", t.token},
	}
	for i, step := range steps {
		if err := t.asks(ctx, step.script, step.want); err != nil {
			return fmt.Errorf("launch %d: %w", i+1, err)
		}
	}
	return nil
}

func noSlot(ctx context.Context, t *trial) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.JSON(http.StatusPaymentRequired,
		`{"success":true,"data":{"allowed":false,"reason":"concurrency_limit","current":1,"limit":1}}`))
	return t.refused(ctx, http.StatusPaymentRequired)
}

func cloudAway(ctx context.Context, t *trial) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.Failure(fault.Unavailable, "The cloud is away."))
	return t.refused(ctx, http.StatusServiceUnavailable)
}

func cloudBroken(ctx context.Context, t *trial) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Authorize, fakecloud.Reset)
	return t.refused(ctx, http.StatusServiceUnavailable)
}

// startRefused is the one refusal that comes after the browser's start.
func startRefused(ctx context.Context, t *trial) error {
	t.cloud.AnswerForProfile(t.profile, fakecloud.Start, fakecloud.Failure(fault.PaymentRequired, "All slots of the organization are taken."))
	t.ending()
	answer, err := t.ask(ctx)
	if err != nil {
		return err
	}
	if answer.StatusCode() != http.StatusPaymentRequired {
		return fmt.Errorf("the launch was answered %s, want 402: %s", answer.Status(), answer.Body)
	}
	t.book.took(phaseRefused, time.Since(t.began))
	return nil
}

func proxyAway(ctx context.Context, t *trial) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	return t.refused(ctx, http.StatusBadRequest, overProxy(port, ""))
}

func proxyRefuses(ctx context.Context, t *trial) error {
	return t.refused(ctx, http.StatusBadRequest, overProxy(t.site.proxy, "wrong"))
}

func overProxy(port int, password string) func(*workerapi.LaunchProfileRequest) {
	return func(r *workerapi.LaunchProfileRequest) {
		settings := map[string]string{"server": fmt.Sprintf("http://127.0.0.1:%d", port)}
		if password != "" {
			settings["username"], settings["password"] = proxyUser, password
		}
		r.ProxyOverride, _ = json.Marshal(settings) //nolint:errchkjson // strings always can be
	}
}

// notInstalled asks for a browser that no machine has, once by a profile, which
// only the cloud knows, and once by a spec.
func notInstalled(ctx context.Context, t *trial) error {
	const never = 1
	id := t.cloud.Profile(never)
	t.book.change(t.expected, func(e *expectation) { e.profile = id })
	err := t.refused(ctx, http.StatusBadRequest, func(r *workerapi.LaunchProfileRequest) { r.ProfileId = &id })
	version := int32(never)
	return errors.Join(err, t.refused(ctx, http.StatusBadRequest, func(r *workerapi.LaunchProfileRequest) {
		r.ProfileId, r.Spec = nil, &sharedapi.LaunchSpec{BrowserVersion: &version}
	}))
}
