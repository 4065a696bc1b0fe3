package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

// visit is one launch, up to a loaded page. Times are in milliseconds since the
// request for the browser.
type visit struct {
	answered, loaded float64
	warm             bool
	own              float64 // the worker's share: without the cloud and without Chromium
}

func answered(v visit) float64 { return v.answered }
func loaded(v visit) float64   { return v.loaded }
func own(v visit) float64      { return v.own }

// starts measures launches, alternately with a pool, without a pool, of Chromium
// alone, and of each other tool.
func (b *bench) starts(ctx context.Context) ([]benchresult.Row, error) {
	arguments, err := b.cold.arguments(ctx)
	if err != nil {
		return nil, err
	}
	baseline := func(last string) benchresult.Side[visit] {
		return func(ctx context.Context) (visit, error) {
			if err := awaitIdle(ctx); err != nil {
				return visit{}, err
			}
			took, err := measureBaseline(ctx, b.build.path, append(slices.Clone(arguments), last), b.dir)
			return visit{answered: took}, err
		}
	}
	all := b.peers(ctx)
	defer func() {
		for _, p := range all {
			p.stop()
		}
	}()
	sides := []benchresult.Side[visit]{b.warm.visit, b.cold.visit, b.cold.withoutTabs().visit, baseline("about:blank"), baseline("--no-startup-window")}
	var present, missing []*peer
	for _, p := range all {
		if p.missing != nil {
			missing = append(missing, p)
			continue
		}
		present, sides = append(present, p), append(sides, p.visit)
	}
	measured, err := benchresult.Interleave(ctx, b.rounds, sides...)
	if err != nil {
		return nil, err
	}
	ours := launches{warm: measured[0], cold: measured[1], tabless: measured[2], baseline: measured[3], tablessBaseline: measured[4]}
	return rows(ours, present, measured[5:], missing), nil
}

// visit launches a browser, loads the page and ends the browser.
func (w *worker) visit(ctx context.Context) (v visit, err error) {
	if err := w.waitForWarmPool(ctx); err != nil {
		return v, err
	}
	began := time.Now()
	a, err := w.launchAndPing(ctx)
	if err != nil {
		return v, err
	}
	defer func() {
		a.client.close()
		err = errors.Join(err, w.end(ctx, a.session))
	}()
	if err := a.client.attach(ctx); err != nil {
		return v, err
	}
	if err := a.client.load(ctx, w.environment.page); err != nil {
		return v, err
	}
	return visit{
		answered: a.answeredMs, loaded: milliseconds(time.Since(began)), warm: a.session.Start.Warm,
		own: a.launchedMs - a.session.externalTime(),
	}, nil
}

// externalTime returns the time that a launch spent in calls to the cloud, and in
// Chromium from its start to its first answer, in milliseconds.
func (s session) externalTime() (sum float64) {
	before := 0.0
	for _, step := range s.Timeline {
		if slices.Contains([]string{"authorized", "answered", "reported"}, step.Step) {
			sum += step.AfterMs - before
		}
		before = step.AfterMs
	}
	return sum
}

// launches contains the worker's launches and the baseline, by kind.
type launches struct {
	warm            []visit
	cold            []visit
	tabless         []visit // cold; browsers of the other tools also have no tab when they answer
	baseline        []visit
	tablessBaseline []visit
}

// rows returns the rows of the launches.
func rows(ours launches, peers []*peer, measured [][]visit, missing []*peer) (all []benchresult.Row) {
	share := 0.0
	for _, v := range ours.warm {
		if v.warm {
			share += 100 / float64(len(ours.warm))
		}
	}
	for _, r := range []struct {
		what, milestone string
		ours            []visit
		figure          func(visit) float64
		most            float64
		best            bool // compare with the fastest tool only
	}{
		{"warm launch", "the first CDP answer", ours.warm, answered, 0.1, true},
		{"warm launch", "a loaded page", ours.warm, loaded, 0.3, true},
		{"cold launch", "the first CDP answer", ours.cold, answered, 1, false},
		{"cold launch", "a loaded page", ours.cold, loaded, 0.9, false},
		{"cold launch without a tab", "the first CDP answer", ours.tabless, answered, 1, true},
		{"cold launch without a tab", "a loaded page", ours.tabless, loaded, 0.9, true},
	} {
		var beside []benchresult.Row
		for i, p := range peers {
			beside = append(beside, benchresult.Row{
				What: r.what + " to " + r.milestone, Unit: "ms", Ours: benchresult.Median(r.ours, r.figure),
				Other: benchresult.Median(measured[i], r.figure), Than: p.name,
			})
		}
		slices.SortFunc(beside, func(a, b benchresult.Row) int { return int(a.Other*1000 - b.Other*1000) })
		if len(beside) > 0 {
			beside[0].Target = benchresult.AtMost(r.most)
		}
		if r.best {
			beside = beside[:min(len(beside), 1)]
		}
		all = append(all, beside...)
	}
	all = slices.Insert(all, min(2, len(all)), benchresult.Row{What: "launches with a warm browser", Unit: "%", Ours: share})
	for _, p := range missing {
		all = append(all, benchresult.Row{What: "cold launch", Unit: "ms", Ours: benchresult.Median(ours.cold, answered), Than: "missing: " + p.name + ": " + firstLine(p.missing)})
	}
	return append(all, benchresult.Row{
		What: "cold launch to the first CDP answer", Unit: "ms", Ours: benchresult.Median(ours.cold, answered),
		Other: benchresult.Median(ours.baseline, answered), Than: "Chromium alone, over its pipe",
	}, benchresult.Row{
		What: "cold launch without a tab to the first CDP answer", Unit: "ms", Ours: benchresult.Median(ours.tabless, answered),
		Other: benchresult.Median(ours.tablessBaseline, answered), Than: "Chromium alone, over its pipe",
	}, benchresult.Row{
		What: "worker's own share of a cold launch", Unit: "ms", Ours: benchresult.Median(ours.cold, own), Target: benchresult.FigureAtMost(10),
	}, benchresult.Row{What: "worker's own share of a warm launch", Unit: "ms", Ours: benchresult.Median(ours.warm, own)})
}

// firstLine returns the first line of an error, for a table cell.
func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return fmt.Sprintf("%.80s", strings.ReplaceAll(line, "|", "/"))
}
