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
	case len(os.Args) > 1 && os.Args[1] == "byhand":
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

func (b *bench) parts() benchresult.Parts {
	return benchresult.Parts{
		{Name: "hot", What: "one hot organization, with the combiner and without", Measure: b.hot},
		{Name: "http", What: "one hot organization over HTTP, and the same chain without a database", Measure: b.hotOverHTTP},
		{Name: "uncontended", What: "a single client, and the floor of a durable pair", Measure: b.uncontended},
		{Name: "many", What: "1,000 organizations, and plain prepared statements", Measure: b.many},
		{Name: "refusals", What: "refusals over HTTP", Measure: b.refusals},
		{Name: "history", What: "authorize with 100,000 live and 1,000,000 ended slots", Measure: b.history},
		{Name: "heartbeats", What: "heartbeats, and their bare statement", Measure: b.heartbeats},
		{Name: "framework", What: "framework, validation and key check, and a server written by hand", Measure: b.framework},
		{Name: "machines", What: "how many machines one cloud carries", Measure: b.machines},
	}
}

func names() []string { return (&bench{}).parts().Names() }

// bench is one run.
type bench struct {
	*testEnv
	options
	duration time.Duration // how long a side is measured at a time
}

func run(ctx context.Context, o options) (err error) {
	if err := (&bench{}).parts().Check(o.only); err != nil {
		return err
	}
	b := &bench{options: o, duration: 600 * time.Millisecond}
	if o.quick {
		b.rounds, b.duration = min(b.rounds, 2), 200*time.Millisecond
	}
	benchresult.Progress("Building svc-cloud, and starting a PostgreSQL")
	if b.testEnv, err = openTestEnv(ctx, o.profile); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	report := benchresult.Report{
		Title: "What the license accounting costs", Command: "make bench-license BENCH_WRITE=" + o.write,
		On: []string{"PostgreSQL " + b.version}, Rounds: b.rounds, Notes: notes,
	}
	if report.Rows, err = b.withCleanup(b.parts()).Measure(ctx, o.only); err != nil {
		return err
	}
	fmt.Print(report)
	if o.write == "" {
		return nil
	}
	return report.Write(o.write)
}

// withCleanup has each part's traces removed before the next.
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

// notes say what the table leaves open.
const notes = `Everything shares the cores: PostgreSQL, the program that is measured, and the one that asks. "Go" calls the license
package, "HTTP" a svc-cloud of its own; the chain without a database is the same HTTP side with key, profile and license
in memory. A machine's heartbeat is measured from when it was due.
`
