package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	densityLaunches = 4               // concurrent launches
	densitySettle   = 8 * time.Second // after the launches, before the measurement
	freezeSeconds   = 2               // FREEZE_IDLE_SECONDS of the worker that freezes browsers
	frozenSessions  = 50              // whose rest and thaw is measured
)

// busyScript makes a page lightly busy: every second it changes an element.
const busyScript = `setInterval(() => { document.querySelector('h1').textContent = new Date().toISOString() }, 1000)`

// densityTargets are the maximum PSS of an idle session of frozenSessions, in MB.
var densityTargets = map[string]float64{"headless-shell": 60, "chromium": 130}

// density is one run of make bench-density.
type density struct {
	*environment
	options
	always, freezing *worker // without and with FREEZE_IDLE_SECONDS
}

// setCounts sets the numbers of sessions from a flag.
func (o *options) setCounts(text string) error {
	o.counts = nil
	for number := range strings.SplitSeq(text, ",") {
		count, err := strconv.Atoi(number)
		if err != nil || count < 1 {
			return fmt.Errorf("%q is not a number of sessions", number)
		}
		o.counts = append(o.counts, count)
	}
	return nil
}

func (d *density) parts() benchresult.Parts {
	part := func(name, engine string) benchresult.Part {
		return benchresult.Part{Name: name, What: "sessions of engine " + engine, Measure: func(ctx context.Context) ([]benchresult.Row, error) {
			return d.measure(ctx, engine)
		}}
	}
	return benchresult.Parts{part("shell", "headless-shell"), part("full", "chromium")}
}

func runDensity(ctx context.Context, o options) (err error) {
	d := &density{options: o}
	if err := d.parts().Check(o.only); err != nil {
		return err
	}
	if d.environment, err = newBrowserEnvironment(ctx, "a cloud and two workers"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if d.always, err = d.worker(ctx, "always", "WARM_POOL=0", "MAX_USAGE_PERCENT=97"); err != nil {
		return err
	}
	if d.freezing, err = d.worker(ctx, "freezing", "WARM_POOL=0", "MAX_USAGE_PERCENT=97", fmt.Sprintf("FREEZE_IDLE_SECONDS=%d", freezeSeconds)); err != nil {
		return err
	}
	return o.report(ctx, benchresult.Report{Title: "Density", Command: "make bench-density", On: []string{d.build.version}, Notes: densityNotes(o)}, d.parts())
}

func densityNotes(o options) string {
	return fmt.Sprintf(`Each session has one page of 100 paragraphs and no client. A busy page changes one element each second. Memory is the
proportional set size (PSS) of all processes of the browsers, in millions of bytes; faults are minor and major page faults.
Processor time and faults are those of %d s, %.0f s after the last launch. A frozen session is one of a worker with
FREEZE_IDLE_SECONDS; its thaw is measured from the connection of a client to the answer of the page.
`, o.windowSeconds, densitySettle.Seconds())
}

// measure measures all numbers of sessions of one engine.
func (d *density) measure(ctx context.Context, engine string) (rows []benchresult.Row, err error) {
	for _, count := range d.counts {
		more, err := d.measureRunning(ctx, engine, count)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	frozen, err := d.measureFrozen(ctx, engine)
	return append(rows, frozen...), err
}

// measureRunning measures sessions that are not frozen, first with idle pages and then
// with busy ones.
func (d *density) measureRunning(ctx context.Context, engine string, count int) (rows []benchresult.Row, err error) {
	sessions, err := d.always.launchSessions(ctx, engine, count, "")
	defer func() { err = errors.Join(err, d.always.endSessions(ctx, sessions)) }()
	if err != nil {
		return nil, err
	}
	for _, state := range []string{"idle", "busy"} {
		if state == "busy" {
			if err := eachSession(ctx, sessions, func(ctx context.Context, s session) error { return evaluateIn(ctx, s, busyScript) }); err != nil {
				return nil, err
			}
		}
		rest, err := d.always.measureIdleUsage(ctx, count, d.windowSeconds)
		if err != nil {
			return nil, err
		}
		rows = append(rows, rest.rows(fmt.Sprintf("%d %s sessions, %s", count, state, engine), engine, count, state)...)
	}
	return rows, nil
}

// measureFrozen measures frozen sessions with busy pages.
func (d *density) measureFrozen(ctx context.Context, engine string) (rows []benchresult.Row, err error) {
	count := min(frozenSessions, d.counts[len(d.counts)-1])
	sessions, err := d.freezing.launchSessions(ctx, engine, count, busyScript)
	defer func() { err = errors.Join(err, d.freezing.endSessions(ctx, sessions)) }()
	if err != nil {
		return nil, err
	}
	if err := eachSession(ctx, sessions, d.freezing.awaitFrozen); err != nil {
		return nil, err
	}
	rest, err := d.freezing.measureIdleUsage(ctx, count, d.windowSeconds)
	if err != nil {
		return nil, err
	}
	var took []float64
	for _, s := range sessions {
		began := time.Now()
		if err := evaluateIn(ctx, s, "1"); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	what := fmt.Sprintf("%d busy sessions, frozen, %s", count, engine)
	return append(rest.rows(what, engine, count, "frozen"),
		benchresult.Row{What: what + ": connection to the page's answer, p50", Unit: "ms", Ours: benchresult.Quantile(took, 0.5, identity)},
		benchresult.Row{What: what + ": connection to the page's answer, p95", Unit: "ms", Ours: benchresult.Quantile(took, 0.95, identity)},
	), nil
}

// idleUsage is what a session uses while no client is connected.
type idleUsage struct {
	megabytes    float64 // PSS
	faults       float64 // a minute
	milliseconds float64 // of processor time a second
}

func (r idleUsage) rows(what, engine string, count int, state string) []benchresult.Row {
	memory := benchresult.Row{What: what + ": PSS of a session", Unit: "MB", Ours: r.megabytes}
	if count == frozenSessions && state == "idle" {
		memory.Target = benchresult.FigureAtMost(densityTargets[engine])
	}
	return []benchresult.Row{
		memory,
		{What: what + ": page faults of a session", Unit: "1/min", Ours: r.faults},
		{What: what + ": CPU of a session", Unit: "ms/s", Ours: r.milliseconds},
	}
}

// measureIdleUsage measures the browsers of a worker over some seconds.
func (w *worker) measureIdleUsage(ctx context.Context, count, seconds int) (r idleUsage, err error) {
	if err := pause(ctx, densitySettle); err != nil {
		return r, err
	}
	before, began := w.browserProcesses(), time.Now()
	if err := pause(ctx, time.Duration(seconds)*time.Second); err != nil {
		return r, err
	}
	elapsed := time.Since(began)
	for key, after := range w.browserProcesses() {
		r.milliseconds += float64(after.ticks-before[key].ticks) * 10
		r.faults += float64(after.faults - before[key].faults)
		kilobytes, err := pss(after.pid)
		if err != nil {
			return r, err
		}
		r.megabytes += kilobytes * 1024 / 1e6
	}
	sessions := float64(count)
	return idleUsage{r.megabytes / sessions, r.faults / sessions / elapsed.Minutes(), r.milliseconds / sessions / elapsed.Seconds()}, nil
}

// browserProcesses returns the processes of a worker that are not its own program.
func (w *worker) browserProcesses() map[string]process {
	all := map[string]process{}
	for _, p := range descendants(w.PID()) {
		if p.name != "svc-worker" {
			all[fmt.Sprint(p.pid, p.began)] = p
		}
	}
	return all
}
