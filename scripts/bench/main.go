// bench is `make bench-worker`: it compares the worker with other tools and with
// Chromium alone, in interleaved rounds, and reports medians. It measures warm and
// cold launches, CDP through the worker and directly, bursts, the memory of the
// worker, and leaked processes after a kill.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/browser-svc/svc/shared/benchresult"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		fmt.Fprintln(os.Stderr, "make bench-worker:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	rounds, launches, kills int
	burstSize               int      // how many ask at the same time in a burst
	only                    []string // of parts; empty for all
	write                   string
}

func parse() options {
	o := options{burstSize: 20}
	var only string
	var quick bool
	flag.IntVar(&o.rounds, "rounds", 20, "measurements per side of a comparison")
	flag.IntVar(&o.launches, "launches", 500, "launches before the worker's memory is measured again")
	flag.IntVar(&o.kills, "kill-rounds", 20, "number of times a worker is killed")
	flag.StringVar(&only, "only", "", "comma-separated parts to measure: "+strings.Join(names(), ", "))
	flag.BoolVar(&quick, "quick", false, "smoke test of two minutes; the figures are not meaningful")
	flag.StringVar(&o.write, "write", "", "write the table to its section of this file")
	flag.Parse()
	if quick {
		o.rounds, o.launches, o.kills, o.burstSize = min(o.rounds, 2), min(o.launches, 20), min(o.kills, 2), 8
	}
	o.rounds = max(o.rounds, 1)
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o
}

func (b *bench) parts() benchresult.Parts {
	return benchresult.Parts{
		{Name: "starts", What: "launches, warm and cold, and those of the peers", Measure: b.starts},
		{Name: "relay", What: "CDP through the worker and directly", Measure: b.relay},
		{Name: "burst", What: "concurrent launches", Measure: b.burst},
		{Name: "memory", What: "the worker's own memory", Measure: b.memory},
		{Name: "kill", What: "processes left by a killed worker", Measure: b.kill},
	}
}

func names() []string { return (&bench{}).parts().Names() }

// poolSize is how many browsers the one worker keeps ready.
const poolSize = 4

// bench is one run, with a worker that keeps browsers ready and one that keeps
// none.
type bench struct {
	*environment
	options
	warm, cold *worker
}

func run(ctx context.Context, o options) (err error) {
	if err := (&bench{}).parts().Check(o.only); err != nil {
		return err
	}
	benchresult.Progress("Building the programs, starting a cloud with PostgreSQL and two workers")
	b := &bench{options: o}
	if b.environment, err = newEnvironment(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if b.warm, err = b.worker(ctx, "warm", fmt.Sprintf("WARM_POOL=%d", poolSize)); err != nil {
		return err
	}
	defer func() { err = errors.Join(b.warm.stop(), err) }()
	if b.cold, err = b.worker(ctx, "cold", "WARM_POOL=0"); err != nil {
		return err
	}
	defer func() { err = errors.Join(b.cold.stop(), err) }()
	report := benchresult.Report{
		Title: "What the worker costs", Command: "make bench-worker BENCH_WRITE=" + o.write,
		On: []string{b.build.version}, Rounds: o.rounds, Notes: notes(),
	}
	if report.Rows, err = b.parts().Measure(ctx, o.only); err != nil {
		return err
	}
	fmt.Print(report)
	if o.write == "" {
		return nil
	}
	return report.Write(o.write)
}

// notes say what the table leaves open.
func notes() string {
	text := `Everybody launches the same Chromium, headless, opens the same page of this machine, and is measured from being asked:
to the first answer of the browser that reaches the client, and to the page's load event. Ours is asked over HTTP and asks a
svc-cloud for a slot each time. The peers are asked as their documentation says for a program that launches many: rod and
playwright run-server are servers that launch for whoever connects, chromedriver stays and makes sessions, the others are
libraries in a process that stays. A worker's own share is what is left of a launch's answer without the cloud's two round
trips and without Chromium from its start to its first answer. Memory counts all processes of svc-worker. A burst's figure is
the median of fewer rounds.
`
	if os.Geteuid() == 0 {
		text += "Run as root: the peers start Chromium without its sandbox, which refuses root; the worker's has it.\n"
	}
	return text
}
