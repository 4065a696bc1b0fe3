// bench is `make bench-license`: the license accounting beside what it is held
// against, on one PostgreSQL of its own, in interleaved rounds, as medians.
//
// It is also the processes that the cloud's is compared with: started again as
// `bench chain` it is the cloud's HTTP side without a database, and as `bench
// byhand` a server written by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/bench/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "chain":
		err = serveChain(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == "byhand":
		err = serveByHand(ctx, os.Stdin, os.Stdout)
	default:
		err = run(ctx, parse())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make bench-license:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
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
	flag.IntVar(&o.rounds, "rounds", 7, "how often each side of a comparison is measured, turn about")
	flag.StringVar(&only, "only", "", "measure these parts only, separated by commas: "+strings.Join(names(), ", "))
	flag.BoolVar(&o.quick, "quick", false, "see in a minute that everything runs; the figures mean little")
	flag.StringVar(&o.write, "write", "", "also write the table into its section of this file")
	flag.StringVar(&o.profile, "profile", "", "write into this directory what limits the hot organization: CPU profiles, statements, wait events")
	flag.Parse()
	o.rounds = max(o.rounds, 1)
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o
}

// part is one subject; it makes rows of the table.
type part struct {
	name, what string
	measure    func(ctx context.Context) ([]results.Row, error)
}

func (b *bench) parts() []part {
	return []part{
		{"hot", "one hot organization, with the combiner and without", b.hot},
		{"http", "one hot organization over HTTP, and the same chain without a database", b.hotOverHTTP},
		{"uncontended", "a single client, and the floor of a durable pair", b.uncontended},
		{"many", "1,000 organizations, and plain prepared statements", b.many},
		{"refusals", "refusals over HTTP", b.refusals},
		{"history", "authorize with 100,000 live and 1,000,000 ended slots", b.history},
		{"heartbeats", "heartbeats, and their bare statement", b.heartbeats},
		{"framework", "framework, validation and key check, and a server written by hand", b.framework},
		{"machines", "how many machines one cloud carries", b.machines},
	}
}

func names() []string {
	var all []string
	for _, p := range (&bench{}).parts() {
		all = append(all, p.name)
	}
	return all
}

// bench is one run.
type bench struct {
	*stage
	options
	turn time.Duration // how long a side is measured at a time
}

func run(ctx context.Context, o options) (err error) {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no part %q, but %s", name, strings.Join(names(), ", "))
		}
	}
	b := &bench{options: o, turn: 600 * time.Millisecond}
	if o.quick {
		b.rounds, b.turn = min(b.rounds, 2), 200*time.Millisecond
	}
	say("Building svc-cloud, and starting a PostgreSQL")
	if b.stage, err = openStage(ctx, o.profile); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	report := results.Report{
		Title: "What the license accounting costs", Command: "make bench-license BENCH_WRITE=" + o.write,
		On: []string{"PostgreSQL " + b.version}, Rounds: b.rounds, Notes: notes,
	}
	for _, p := range b.parts() {
		if len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		say("Measuring: %s", p.what)
		began := time.Now()
		rows, err := p.measure(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // says more than what it broke off
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := b.clear(ctx); err != nil {
			return err
		}
		for _, r := range rows {
			step("%s", r)
		}
		step("(%.0f s)", time.Since(began).Seconds())
		report.Rows = append(report.Rows, rows...)
	}
	fmt.Print(report)
	if o.write == "" {
		return nil
	}
	return report.Write(o.write)
}

// notes say what the table leaves open.
const notes = `Everything shares the cores: PostgreSQL, the program that is measured, and the one that asks. "Go" calls the license
package, "HTTP" a svc-cloud of its own; the chain without a database is the same HTTP side with key, profile and license
in memory. A machine's heartbeat is measured from when it was due.
`

// say and step tell the person who waits.
func say(format string, args ...any)  { fmt.Fprintf(os.Stderr, "• "+format+"\n", args...) }
func step(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }
