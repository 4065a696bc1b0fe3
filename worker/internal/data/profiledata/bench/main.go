// Bench is `make bench-profiles`: it measures saves and restores of profile data with an
// S3 server on this machine.
//
// The same program also runs as the measured process: `bench session` restores the data of
// a profile, changes it and saves it, as a worker does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/browser-svc/svc/shared/benchresult"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "session" {
		err = runSession(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, parse())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make bench-profiles:", err)
		os.Exit(1)
	}
}

// options are the command-line flags.
type options struct {
	rounds int
	quick  bool
	write  string
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "number of measurements of each figure")
	flag.BoolVar(&o.quick, "quick", false, "check in seconds that everything runs; the figures are not meaningful")
	flag.StringVar(&o.write, "write", "", "also write the table into its section of this `file`")
	flag.Parse()
	o.rounds = max(o.rounds, 1)
	return o
}

func run(ctx context.Context, o options) (err error) {
	b := &bench{rounds: o.rounds, size: 300 << 20, change: 5 << 20}
	if o.quick {
		b.rounds, b.size, b.change = 1, 30<<20, 1<<20
	}
	if err := b.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	report := benchresult.Report{
		Title: "Profile data", Command: "make bench-profiles BENCH_WRITE=" + o.write,
		On: []string{"gofakes3 in memory"}, Rounds: b.rounds, Notes: notes,
	}
	parts := benchresult.Parts{
		{Name: "sessions", What: fmt.Sprintf("saves and restores of %d MB", b.size>>20), Measure: b.sessions},
	}
	if report.Rows, err = parts.Measure(ctx, nil); err != nil {
		return err
	}
	return report.Publish(o.write)
}

// notes explain the table.
const notes = `The profile has 300 MiB (315 MB) in 1,200 files, about half of it compressible. The second save is of the same data with 5 MiB in
20 files replaced. The S3 server, gofakes3, is another process on this machine: it shares the cores and answers over HTTP on
the loopback interface. The bytes are those of the encrypted objects. Each save and each restore runs in a process of its own
with the code and the memory settings of svc-worker. The peak memory is the greatest resident set of that process (VmHWM); an
idle worker has about 21 MB. A save also restores the version before it, but its time does not include that.
`
