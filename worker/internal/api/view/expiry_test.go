package view_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
)

// ending is the expiry of a browser, which tests change.
type ending struct{ atomic.Pointer[access.Expiry] }

func (e *ending) set(reason string, limit, left time.Duration) {
	e.Store(&access.Expiry{Time: time.Now().Add(left), Reason: reason, Limit: limit})
}

func (e *ending) expiry() access.Expiry {
	if now := e.Load(); now != nil {
		return *now
	}
	return access.Expiry{}
}

func TestStream_AnnouncesLastMinute(t *testing.T) {
	var end ending
	end.set("idle", 5*time.Minute, 2*time.Minute)
	s := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{Calls: intercept.New(intercept.Options{}), Expiry: end.expiry})
	conn, err := s.dial(t, "events=true&t="+s.token(t, ticket.View))
	if err != nil {
		t.Fatal(err)
	}
	type expiry struct {
		Reason                    string
		LimitSeconds, SecondsLeft float64
	}
	read := func() (got struct{ Expiry *expiry }) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, text, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read(); got.Expiry != nil {
		t.Errorf("two minutes before the end: %+v", got.Expiry)
	}
	end.set("max_duration", time.Hour, 50*time.Second)
	if got := read().Expiry; got == nil || got.Reason != "max_duration" || got.LimitSeconds != 3600 || got.SecondsLeft <= 0 || got.SecondsLeft > 50 {
		t.Errorf("in the last minute: %+v", got)
	}
	end.set("max_duration", 2*time.Hour, time.Hour)
	if got := read(); got.Expiry != nil {
		t.Errorf("after an extension: %+v", got.Expiry)
	}
}

const (
	expiryBanner      = "document.getElementById('expiry')"
	expiryBannerShown = expiryBanner + ".checkVisibility() + ' ' + " + expiryBanner + ".querySelectorAll('button').length"
)

// TestViewPage_OffersToExtend checks the banner of the last minute in a page with control, and in one
// with a view ticket.
func TestViewPage_OffersToExtend(t *testing.T) {
	var end ending
	updates := make(chan string, 10)
	extend := access.Route{Path: "/lifetime", Method: http.MethodPatch, Handle: func(c echo.Context, _ access.AuthorizedRequest) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		updates <- string(body)
		end.set("idle", 5*time.Minute, 5*time.Minute)
		return c.NoContent(http.StatusOK)
	}}
	s := newFixture(t, true, "", func(b *access.Browser) access.Route {
		b.Expiry = end.expiry
		return extend
	})
	watcher := openTab(t, s.viewerBrowser, s.path("/view?t="+s.token(t, ticket.View)))
	p := openTab(t, s.viewerBrowser, s.path("/view?ct="+s.token(t, ticket.Control)))
	p.WaitFor("in control", state, "Live, in control")
	p.WaitFor("no banner", expiryBannerShown, "false 1")

	end.set("idle", 5*time.Minute, 40*time.Second)
	p.WaitFor("a banner", expiryBannerShown, "true 1")
	p.WaitFor("the time left", "/^Ends in \\d+ s$/.test(document.getElementById('expiry-left').textContent)", "true")
	p.saveScreenshots("expiry")
	p.Eval("document.getElementById('expiry-extend').click()")
	p.WaitFor("no banner", expiryBannerShown, "false 1")
	if got := <-updates; got != `{"idleTimeoutSeconds":300}` {
		t.Errorf("the page sent %s", got)
	}
	end.set("max_duration", time.Hour, 30*time.Second)
	watcher.Call("Page.bringToFront", nil, nil)
	watcher.WaitFor("a banner without a button", expiryBannerShown, "true 0")
	p.Call("Page.bringToFront", nil, nil)
	p.WaitFor("the action", "document.getElementById('expiry-extend').textContent", "Extend by 10 minutes")
	p.Eval("document.getElementById('expiry-extend').click()")
	testenv.Eventually(t, "an update", func() bool { return len(updates) > 0 })
	if got := <-updates; got != `{"maxDurationSeconds":4200}` {
		t.Errorf("the page sent %s", got)
	}
	p.saidNothing()
}
