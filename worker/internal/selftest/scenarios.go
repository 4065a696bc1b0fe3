package selftest

import (
	"context"
	"slices"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// displayMode says how a scenario's browser is launched.
type displayMode int

const (
	anyDisplay displayMode = iota
	headlessOnly
	headfulOnly
)

// scenario is one course of a launch, with its expected result.
type scenario struct {
	name        string
	display     displayMode
	persist     bool
	profile     func(t *scenarioRun, c *cloudapi.ProfileConfig) // changes the profile; may be nil
	run         func(ctx context.Context, t *scenarioRun) error
	launches    int      // number of sessions reported to the cloud
	reasons     []string // allowed end reasons
	endOptional bool     // the end may be unreported
}

// scenarios returns all scenarios.
func scenarios() []scenario {
	return slices.Concat(endScenarios(), cutScenarios(), settingScenarios(), refusalScenarios())
}

// endScenarios are the scenarios that end a running browser.
func endScenarios() []scenario {
	return []scenario{
		{name: "end by DELETE", run: driveThenEnd(endByDelete), launches: 1, reasons: []string{"killed"}},
		{name: "end by POST /close", run: driveThenEnd(closeRoute), launches: 1, reasons: []string{"killed"}},
		{name: "end by Browser.close", run: driveThenEnd(closeBrowser), launches: 1, reasons: []string{"client_close"}},
		{name: "end by the idle limit", run: waitForLimit(func(t *scenarioRun) { t.settings.IdleTimeoutSeconds = new(int32(1)) }), launches: 1, reasons: []string{"idle"}},
		{name: "end by the maximum duration", run: waitForLimit(func(t *scenarioRun) { t.settings.MaxDurationSeconds = new(int32(2)) }), launches: 1, reasons: []string{"max_duration"}},
		{name: "Chromium killed", run: driveThenEnd(func(_ context.Context, t *scenarioRun) error { return t.killProcess(false) }), launches: 1, reasons: []string{"crash", "oom"}},
		{name: "display killed", display: headfulOnly, run: driveThenEnd(func(_ context.Context, t *scenarioRun) error { return t.killProcess(true) }), launches: 1, reasons: []string{"crash", "client_close"}},
		{name: "socket closed", run: socketClosed, launches: 1, reasons: []string{"client_close"}},
		{name: "socket closed, kept alive", run: socketKeptAlive, launches: 1, reasons: []string{"killed"}},
		{name: "socket, Browser.close", run: socketBrowserClose, launches: 1, reasons: []string{"client_close"}},
	}
}

// cutScenarios are the scenarios in which a client disconnects.
func cutScenarios() []scenario {
	return []scenario{
		{name: "client cut off mid-frame", run: cutClient, launches: 1, reasons: []string{"killed"}},
		{name: "client cut off and resumed", run: resumeAfterCuts, launches: 1, reasons: []string{"killed"}},
		{name: "socket cut off mid-frame", run: cutSocket, launches: 1, reasons: []string{"client_close"}},
		{name: "view cut off", run: cutView, launches: 1, reasons: []string{"killed"}},
		{name: "launch canceled by the client", run: abandonLaunch, launches: 1, reasons: []string{"unknown", "client_close"}, endOptional: true},
	}
}

// settingScenarios are the scenarios with special settings.
func settingScenarios() []scenario {
	return []scenario{
		{name: "time zone and language", profile: setTokyoProfile, run: checkTokyoSettings, launches: 1, reasons: []string{"killed"}},
		{name: "through a proxy", profile: setProxyProfile, run: checkProxy, launches: 1, reasons: []string{"killed"}},
		{name: "a spec instead of a profile", run: launchBySpec, launches: 1, reasons: []string{"killed"}},
		{name: "frozen, used and frozen again", run: freezeTwice, launches: 1, reasons: []string{"killed"}},
		{name: "a profile that keeps its data", persist: true, run: checkPersistence, launches: 2, reasons: []string{"killed"}},
	}
}

// refusalScenarios are the launches that must be refused.
func refusalScenarios() []scenario {
	return []scenario{
		{name: "refused: no slot is free", run: noFreeSlot},
		{name: "refused: the cloud is unreachable", run: cloudUnavailable, reasons: []string{"unknown"}, endOptional: true},
		{name: "refused: the cloud closes the connection", run: cloudResets, reasons: []string{"unknown"}, endOptional: true},
		{name: "refused: the cloud rejects the start", run: startRefused, reasons: []string{"license"}},
		{name: "refused: the proxy is unreachable", run: proxyUnreachable, reasons: []string{"unknown"}, endOptional: true},
		{name: "refused: the proxy rejects the password", run: proxyRefuses, reasons: []string{"unknown"}, endOptional: true},
		{name: "refused: the browser is not installed", run: notInstalled, reasons: []string{"unknown"}, endOptional: true},
	}
}

// driveThenEnd launches over REST, drives the browser, ends it with end and
// waits until it has ended.
func driveThenEnd(end func(ctx context.Context, t *scenarioRun) error) func(context.Context, *scenarioRun) error {
	return func(ctx context.Context, t *scenarioRun) error {
		if err := t.launch(ctx); err != nil {
			return err
		}
		if err := t.drive(ctx); err != nil {
			return err
		}
		if err := end(ctx, t); err != nil {
			return err
		}
		return t.waitForEnd(ctx)
	}
}

func endByDelete(ctx context.Context, t *scenarioRun) error { return t.kill(ctx) }
