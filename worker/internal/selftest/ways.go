package selftest

import (
	"context"
	"slices"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// screen says how a way's browser is launched.
type screen int

const (
	either screen = iota
	headlessOnly
	headfulOnly
)

// way is one thing that can become of a launch, and what follows from it.
type way struct {
	name     string
	screen   screen
	persist  bool
	profile  func(t *trial, c *cloudapi.ProfileConfig) // changes the profile; nil for none
	play     func(ctx context.Context, t *trial) error
	launches int      // how many sessions the cloud hears of
	reasons  []string // of their ends: one of them
	silent   bool     // the cloud may hear of no end
}

// ways are all that a selftest knows.
func ways() []way { return slices.Concat(ends(), cuts(), settings(), refusals()) }

// ends are the ways of ending a browser that runs.
func ends() []way {
	return []way{
		{name: "end by DELETE", play: driven(byRequest), launches: 1, reasons: []string{"killed"}},
		{name: "end by POST /close", play: driven(closeRoute), launches: 1, reasons: []string{"killed"}},
		{name: "end by Browser.close", play: driven(closeBrowser), launches: 1, reasons: []string{"client_close"}},
		{name: "end by the idle limit", play: limited(func(t *trial) { t.settings.IdleTimeoutSeconds = new(int32(1)) }), launches: 1, reasons: []string{"idle"}},
		{name: "end by the maximal duration", play: limited(func(t *trial) { t.settings.MaxDurationSeconds = new(int32(2)) }), launches: 1, reasons: []string{"max_duration"}},
		{name: "Chromium killed", play: driven(func(_ context.Context, t *trial) error { return t.shoot(false) }), launches: 1, reasons: []string{"crash", "oom"}},
		{name: "display killed", screen: headfulOnly, play: driven(func(_ context.Context, t *trial) error { return t.shoot(true) }), launches: 1, reasons: []string{"crash", "client_close"}},
		{name: "socket closed", play: socketClosed, launches: 1, reasons: []string{"client_close"}},
		{name: "socket closed, kept alive", play: socketKept, launches: 1, reasons: []string{"killed"}},
		{name: "socket, Browser.close", play: socketBrowserClose, launches: 1, reasons: []string{"client_close"}},
	}
}

// cuts are the ways of losing a client.
func cuts() []way {
	return []way{
		{name: "client cut off mid-frame", play: cutClient, launches: 1, reasons: []string{"killed"}},
		{name: "client cut off and resumed", play: resumed, launches: 1, reasons: []string{"killed"}},
		{name: "socket cut off mid-frame", play: cutSocket, launches: 1, reasons: []string{"client_close"}},
		{name: "view cut off", play: cutView, launches: 1, reasons: []string{"killed"}},
		{name: "launch given up", play: givenUp, launches: 1, reasons: []string{"unknown", "client_close"}, silent: true},
	}
}

// settings are the ways of launching that need more than a browser.
func settings() []way {
	return []way{
		{name: "time zone and language", profile: inTokyo, play: fromTokyo, launches: 1, reasons: []string{"killed"}},
		{name: "through a proxy", profile: proxied, play: throughProxy, launches: 1, reasons: []string{"killed"}},
		{name: "a spec instead of a profile", play: bySpec, launches: 1, reasons: []string{"killed"}},
		{name: "a profile that keeps its data", persist: true, play: kept, launches: 2, reasons: []string{"killed"}},
	}
}

// refusals are the launches that must not come to anything.
func refusals() []way {
	return []way{
		{name: "refused: no slot is free", play: noSlot},
		{name: "refused: the cloud is away", play: cloudAway, reasons: []string{"unknown"}, silent: true},
		{name: "refused: the cloud breaks off", play: cloudBroken, reasons: []string{"unknown"}, silent: true},
		{name: "refused: the start is not taken", play: startRefused, reasons: []string{"license"}},
		{name: "refused: the proxy is not there", play: proxyAway, reasons: []string{"unknown"}, silent: true},
		{name: "refused: the proxy wants another password", play: proxyRefuses, reasons: []string{"unknown"}, silent: true},
		{name: "refused: the browser is not installed", play: notInstalled, reasons: []string{"unknown"}, silent: true},
	}
}

// driven launches over REST, drives the browser for a while, ends it that way,
// and waits until it is over.
func driven(end func(ctx context.Context, t *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.launch(ctx); err != nil {
			return err
		}
		if err := t.drive(ctx); err != nil {
			return err
		}
		if err := end(ctx, t); err != nil {
			return err
		}
		return t.over(ctx)
	}
}

func byRequest(ctx context.Context, t *trial) error { return t.kill(ctx) }
