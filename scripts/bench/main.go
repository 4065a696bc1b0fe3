// bench is `make bench-worker`: the worker beside the same without it, in
// interleaved rounds, as medians. It relays CDP against a direct socket to the
// same browser, launches through REST (with a real cloud) against a Chromium
// started by hand with the same switches, and weighs the worker's process.
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
	write := flag.String("write", "", "also write the table to this file")
	rounds := flag.Int("rounds", 7, "how often each measurement is made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *write); err != nil {
		fmt.Fprintln(os.Stderr, "make bench-worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, write string) (err error) {
	fmt.Fprintln(os.Stderr, "• Building, and starting a cloud with a PostgreSQL of its own and a worker")
	h, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	var table table
	for _, part := range []struct {
		name    string
		measure func(context.Context, *house, int) ([]row, error)
	}{{"memory", weigh}, {"relay", relay}, {"launches", launches}} {
		fmt.Fprintf(os.Stderr, "• Measuring: %s (%d rounds)\n", part.name, rounds)
		rows, err := part.measure(ctx, h, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		table = append(table, rows...)
	}
	text := table.String(rounds)
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return results.Write(write, "What the worker costs", "Made by `make bench-worker BENCH_WRITE="+write+"`.\n\n"+text)
}

// row is one measurement: the worker's figure beside the other's.
type row struct {
	what          string
	worker, other float64 // medians; other is 0 where there is nothing to compare with
	unit          string
}

type table []row

func (t table) String(rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, medians of %d interleaved rounds, %s.\n\n", results.Machine(), rounds, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "| %-44s | %10s | %10s | %5s | %-7s |\n|%s|%s:|%s:|%s:|%s|\n", "", "worker", "without", "ratio", "",
		strings.Repeat("-", 46), strings.Repeat("-", 11), strings.Repeat("-", 11), strings.Repeat("-", 6), strings.Repeat("-", 9))
	for _, r := range t {
		other, ratio := "", ""
		if r.other > 0 {
			other, ratio = fmt.Sprintf("%.1f", r.other), fmt.Sprintf("%.2f", r.worker/r.other)
		}
		fmt.Fprintf(&b, "| %-44s | %10.1f | %10s | %5s | %-7s |\n", r.what, r.worker, other, ratio, r.unit)
	}
	return b.String()
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// interleave measures a and b in turns, so that what else the machine does
// meets both, and returns the medians.
func interleave(ctx context.Context, rounds int, a, b func(context.Context) (float64, error)) (float64, float64, error) {
	var as, bs []float64
	for range rounds {
		for _, side := range []struct {
			measure func(context.Context) (float64, error)
			into    *[]float64
		}{{a, &as}, {b, &bs}} {
			value, err := side.measure(ctx)
			if err != nil {
				return 0, 0, err
			}
			*side.into = append(*side.into, value)
		}
	}
	return median(as), median(bs), nil
}
