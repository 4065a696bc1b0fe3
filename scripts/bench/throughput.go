package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/benchresult"
)

// manyClients is the number of clients in the second measurement of back-to-back sessions.
// The first one has one client.
const manyClients = 4

// setThroughput sets the defaults of a run of make bench-throughput.
func (o *options) setThroughput() {
	o.burstSize, o.rounds = 50, min(o.rounds, 3)
	if o.quick {
		o.rounds, o.seconds, o.steadySeconds = 1, min(o.seconds, 8), min(o.steadySeconds, 30)
	}
}

// throughputBench is one run of make bench-throughput.
type throughputBench struct {
	*environment
	options
	cpu      *cpuGroup
	workers  map[string]*worker
	all      []*side
	capacity map[*side]float64 // sessions per minute with manyClients
}

// selected returns the sides to measure.
func (t *throughputBench) selected() []*side {
	return slices.DeleteFunc(slices.Clone(t.all), func(s *side) bool { return !strings.Contains(s.name, t.sides) })
}

func (t *throughputBench) parts() benchresult.Parts {
	return benchresult.Parts{
		{Name: "sessions", What: "back-to-back sessions", Measure: t.sessions},
		{Name: "steady", What: "steady arrivals", Measure: t.steady},
		{Name: "burst", What: "bursts", Measure: t.burst},
	}
}

func runThroughput(ctx context.Context, o options) (err error) {
	t := &throughputBench{options: o, cpu: enterCPUGroup(), workers: map[string]*worker{}, capacity: map[*side]float64{}}
	defer t.cpu.close()
	if err := t.parts().Check(o.only); err != nil {
		return err
	}
	if t.environment, err = newBrowserEnvironment(ctx, "a cloud, three workers and the other tools"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	stop, err := t.startSides(ctx)
	defer stop()
	if err != nil {
		return err
	}
	return o.report(ctx, benchresult.Report{
		Title: "Throughput", Command: "make bench-throughput", On: []string{t.build.version}, Rounds: o.rounds, Notes: throughputNotes(o),
	}, t.parts())
}

// sessions measures back-to-back sessions of one and of several clients.
func (t *throughputBench) sessions(ctx context.Context) ([]benchresult.Row, error) {
	single, many := map[*side][]loadResult{}, map[*side][]loadResult{}
	for round := range t.rounds {
		for i, s := range t.selected() {
			if round%2 == 1 {
				s = t.selected()[len(t.selected())-1-i]
			}
			for clients, results := range map[int]map[*side][]loadResult{1: single, manyClients: many} {
				result, err := t.measure(ctx, s, loop(clients, t.seconds))
				if err != nil {
					return nil, err
				}
				results[s] = append(results[s], result)
			}
		}
	}
	for s, results := range many {
		t.capacity[s] = benchresult.Median(results, loadResult.perMinute)
	}
	var rows []benchresult.Row
	for _, m := range []struct {
		what, unit string
		results    map[*side][]loadResult
		figure     func(loadResult) float64
		targets    bool
	}{
		{"sessions, 1 client", "1/min", single, loadResult.perMinute, false},
		{fmt.Sprintf("sessions, %d clients", manyClients), "1/min", many, loadResult.perMinute, true},
		{"CPU of a session, 1 client", "s", single, loadResult.cpuSeconds, false},
		{fmt.Sprintf("CPU of a session, %d clients", manyClients), "s", many, loadResult.cpuSeconds, false},
		{"first answer, 1 client", "ms", single, loadResult.firstAnswer, false},
		{"launches with a warm browser, 4 clients", "%", many, loadResult.warmShare, false},
	} {
		rows = append(rows, t.compare(m.what, m.unit, m.results, m.figure, m.targets)...)
	}
	return rows, nil
}

// compare returns a row for each side of the worker and each side that it is compared
// with.
func (t *throughputBench) compare(what, unit string, results map[*side][]loadResult, figure func(loadResult) float64, targets bool) (rows []benchresult.Row) {
	for _, ours := range t.selected() {
		for i, than := range ours.comparedWith {
			if !slices.Contains(t.selected(), than) {
				continue
			}
			row := benchresult.Row{
				What: what + ": " + ours.name, Unit: unit,
				Ours: benchresult.Median(results[ours], figure), Other: benchresult.Median(results[than], figure), Than: than.name,
			}
			if targets && i == 0 && ours.ratio > 0 {
				row.Target = benchresult.AtLeast(ours.ratio)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// steady measures sessions that arrive regularly at 60 % of the capacity of a side.
func (t *throughputBench) steady(ctx context.Context) (rows []benchresult.Row, err error) {
	for _, s := range t.selected() {
		if !s.warm {
			continue
		}
		if t.capacity[s] == 0 {
			result, err := t.measure(ctx, s, loop(manyClients, t.seconds))
			if err != nil {
				return nil, err
			}
			t.capacity[s] = result.perMinute()
		}
		rate := 0.6 * t.capacity[s]
		result, err := t.measure(ctx, s, map[string]any{"task": "arrive", "perMinute": rate, "seconds": t.steadySeconds})
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("%.0f arrivals a minute, 60 %% of the capacity: ", rate)
		rows = append(rows,
			benchresult.Row{What: what + "launches with a warm browser, " + s.name, Unit: "%", Ours: result.warmShare(), Target: benchresult.FigureAtLeast(95)},
			benchresult.Row{What: what + "p50 to the first answer, " + s.name, Unit: "ms", Ours: result.firstAnswer()},
			benchresult.Row{What: what + "p95 to the first answer, " + s.name, Unit: "ms", Ours: result.quantile(0.95, loadSession.answered), Target: benchresult.FigureAtMost(40)},
		)
	}
	return rows, nil
}

// burst measures sessions that are requested at once.
func (t *throughputBench) burst(ctx context.Context) (rows []benchresult.Row, err error) {
	loaded := map[*side][]float64{}
	for range max(t.rounds, 2) {
		for _, s := range t.selected() {
			if s.noBurst {
				continue
			}
			result, err := t.measure(ctx, s, map[string]any{"task": "burst", "count": t.burstSize})
			if err != nil {
				return nil, err
			}
			loaded[s] = append(loaded[s], result.quantile(0.95, loadSession.loaded))
		}
	}
	for _, ours := range t.selected() {
		if ours.noBurst || len(ours.comparedWith) == 0 || !slices.Contains(t.selected(), ours.comparedWith[0]) {
			continue
		}
		row := benchresult.Row{
			What: fmt.Sprintf("burst of %d: p95 to a loaded page, %s", t.burstSize, ours.name), Unit: "ms",
			Ours: benchresult.Median(loaded[ours], identity), Other: benchresult.Median(loaded[ours.comparedWith[0]], identity), Than: ours.comparedWith[0].name,
		}
		if ours.warm {
			row.Target = benchresult.AtMost(1)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// throughputNotes returns the explanations below the table.
func throughputNotes(o options) string {
	text := fmt.Sprintf(`A session requests a browser, opens a page of 400 elements, reads it and ends the browser. Back-to-back sessions run for
%d s per side and round, steady arrivals for %d s. All browsers are headless; "shell" is the headless shell of the same
Chromium, the default of playwright run-server. The client is Playwright in one Node.js process for run-server and the
worker, which it uses over CDP. puppeteer launches its browsers in the process of the client. CPU is that of all processes:
client, tool or worker with svc-cloud and PostgreSQL, and browsers. "warm" is a worker with the default pool, "cold" one
without a pool. Times count from the request, or from when a steady arrival was due. The other tools run a copy of the
program, which the kernel reads into the page cache while they start it; the worker loads the program in huge pages.
`, o.seconds, o.steadySeconds)
	if os.Geteuid() == 0 {
		text += "This run was as root: the other tools start Chromium without its sandbox; the worker starts it with the sandbox.\n"
	}
	return text
}

// first returns the first error of some sessions.
func first(sessions []loadSession) string {
	i := slices.IndexFunc(sessions, func(s loadSession) bool { return s.Error != "" })
	if i < 0 {
		return ""
	}
	return sessions[i].Error
}
