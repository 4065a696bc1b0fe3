// Bench is `make bench-license`: it measures the license accounting and compares it
// with baselines, on one PostgreSQL, in interleaved rounds. It reports medians.
//
// The same program also runs the servers of the comparison: `bench chain` is the
// cloud's HTTP side without a database, and `bench baseline` a minimal server.
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
	"time"

	"github.com/browser-svc/svc/cloud/internal/app"
	"github.com/browser-svc/svc/shared/benchresult"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "chain":
		app.TuneGarbageCollector()
		err = serveChain(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == "baseline":
		app.TuneGarbageCollector()
		err = serveBaseline(ctx, os.Stdin, os.Stdout)
	default:
		err = run(ctx, parse())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make bench-license:", err)
		os.Exit(1)
	}
}

// options are the command-line flags.
type options struct {
	rounds  int
	only    []string // of parts; empty for all
	quick   bool
	write   string
	profile string
}

func parse() options {
	var o options
	var only string
	flag.IntVar(&o.rounds, "rounds", 7, "number of measurements of each side, alternating")
	flag.StringVar(&only, "only", "", "comma-separated parts to measure: "+strings.Join(names(), ", "))
	flag.BoolVar(&o.quick, "quick", false, "check in a minute that everything runs; the figures are not meaningful")
	flag.StringVar(&o.write, "write", "", "also write the table into its section of this `file`")
	flag.StringVar(&o.profile, "profile", "", "write CPU profiles, statements and wait events of the hot organization into this `directory`")
	flag.Parse()
	o.rounds = max(o.rounds, 1)
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o
}

func (b *bench) parts() benchresult.Parts {
	return benchresult.Parts{
		{Name: "hot", What: "one hot organization, with and without batching", Measure: b.hot},
		{Name: "http", What: "one hot organization over HTTP, and the same chain without a database", Measure: b.hotOverHTTP},
		{Name: "uncontended", What: "a single client, and the minimum cost of a durable pair", Measure: b.uncontended},
		{Name: "many", What: "1,000 organizations, compared with plain prepared statements", Measure: b.many},
		{Name: "refusals", What: "refusals over HTTP", Measure: b.refusals},
		{Name: "history", What: "authorize with 100,000 live and 1,000,000 ended slots", Measure: b.history},
		{Name: "heartbeats", What: "heartbeats, compared with their bare statement", Measure: b.heartbeats},
		{Name: "framework", What: "framework, validation and key check, compared with a minimal server", Measure: b.framework},
		{Name: "machines", What: "the number of machines that one cloud supports", Measure: b.machines},
	}
}

func names() []string { return (&bench{}).parts().Names() }

// bench is one run.
type bench struct {
	*testEnv
	options
	duration time.Duration // duration of one measurement
}

func run(ctx context.Context, o options) (err error) {
	if err := (&bench{}).parts().Check(o.only); err != nil {
		return err
	}
	b := &bench{options: o, duration: 600 * time.Millisecond}
	if o.quick {
		b.rounds, b.duration = min(b.rounds, 2), 200*time.Millisecond
	}
	benchresult.Progress("Building svc-cloud and starting PostgreSQL")
	if b.testEnv, err = openTestEnv(ctx, o.profile); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	report := benchresult.Report{
		Title: "License accounting", Command: "make bench-license BENCH_WRITE=" + o.write,
		On: []string{"PostgreSQL " + b.version}, Rounds: b.rounds, Notes: notes,
	}
	if report.Rows, err = b.withCleanup(b.parts()).Measure(ctx, o.only); err != nil {
		return err
	}
	return report.Publish(o.write)
}

// withCleanup clears the tables after each part.
func (b *bench) withCleanup(parts benchresult.Parts) benchresult.Parts {
	for i, part := range parts {
		parts[i].Measure = func(ctx context.Context) ([]benchresult.Row, error) {
			rows, err := part.Measure(ctx)
			if err != nil {
				return nil, err
			}
			return rows, b.clear(ctx)
		}
	}
	return parts
}

// notes explain the table.
const notes = `PostgreSQL, the measured program and the client share the cores. "Go" calls the license package, "HTTP" a separate
svc-cloud; the chain without a database is the same HTTP side with keys, profiles and licenses in memory. A machine's
heartbeat is measured from the time when it was due.
`
