// bench is `make bench-worker`: it compares the worker with other tools and with
// Chromium alone, in interleaved rounds, and reports medians. It measures warm and
// cold launches, CDP through the worker and directly, bursts, the memory of the
// worker, and leaked processes after a kill.
//
// With --throughput it is `make bench-throughput`: sessions per minute, steady arrivals
// and bursts, compared with other tools.
//
// With --density it is `make bench-density`: memory, page faults and processor time of many
// sessions without clients. With --image it is `make bench-image`: launches of the image beside those
// on this machine. With --license it is `make bench-license`: the license accounting of the cloud.
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
	o := parse()
	name, measure := "make bench-worker:", run
	switch {
	case o.density:
		name, measure = "make bench-density:", runDensity
	case o.throughput:
		name, measure = "make bench-throughput:", runThroughput
	case o.image:
		name, measure = "make bench-image:", runImage
	case o.license:
		name, measure = "make bench-license:", runLicense
	}
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, name, err)
		os.Exit(1)
	}
}

// options are the values of the flags.
type options struct {
	rounds, launches, kills int
	burstSize               int      // the number of concurrent launches in a burst
	only                    []string // the parts to measure; empty for all
	write                   string

	throughput             bool
	sides                  string // part of the names of the sides to measure; empty for all
	seconds, steadySeconds int    // durations of back-to-back sessions and of steady arrivals

	image   bool
	license bool
	quick   bool

	density       bool
	counts        []int // numbers of sessions
	windowSeconds int   // of a measurement of sessions that rest
}

func parse() options {
	o := options{burstSize: 20}
	var only string
	o.counts = []int{20, 50, 100}
	flag.IntVar(&o.rounds, "rounds", 20, "measurements per side of a comparison")
	flag.IntVar(&o.launches, "launches", 500, "launches before the worker's memory is measured again")
	flag.IntVar(&o.kills, "kill-rounds", 20, "number of times a worker is killed")
	flag.StringVar(&only, "only", "", "comma-separated parts to measure: "+strings.Join(names(), ", ")+
		"; with --throughput "+strings.Join((&throughputBench{}).parts().Names(), ", "))
	flag.BoolVar(&o.quick, "quick", false, "short trial run; the figures are not meaningful")
	flag.BoolVar(&o.throughput, "throughput", false, "measure sessions per minute, steady arrivals and bursts")
	flag.StringVar(&o.sides, "sides", "", "with --throughput: measure only the sides whose names contain this")
	flag.IntVar(&o.seconds, "seconds", 20, "with --throughput: seconds of back-to-back sessions per side and round")
	flag.IntVar(&o.steadySeconds, "steady-seconds", 180, "with --throughput: seconds of steady arrivals")
	flag.BoolVar(&o.image, "image", false, "measure launches of the image svc-worker beside those on the host, with Docker, as root")
	flag.BoolVar(&o.license, "license", false, "measure the license accounting; the parts are "+strings.Join((&licenseBench{}).parts().Names(), ", "))
	flag.BoolVar(&o.density, "density", false, "measure many sessions without clients; the parts are "+strings.Join((&density{}).parts().Names(), ", "))
	flag.Func("counts", "with --density: comma-separated numbers of sessions (default 20,50,100)", o.setCounts)
	flag.StringVar(&o.write, "write", "", "write the table to its section of this file")
	flag.Parse()
	o.windowSeconds = 15
	switch {
	case o.throughput:
		o.setThroughput()
	case o.quick:
		o.counts, o.windowSeconds = []int{4}, 5
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

// poolSize is the size of the pool of warm browsers.
const poolSize = 4

// bench is one run, with one worker with a pool of warm browsers and one without.
type bench struct {
	*environment
	options
	warm, cold *worker
}

func run(ctx context.Context, o options) (err error) {
	b := &bench{options: o}
	if err := b.parts().Check(o.only); err != nil {
		return err
	}
	if b.environment, err = newBrowserEnvironment(ctx, "a cloud and two workers"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if b.warm, err = b.worker(ctx, "warm", fmt.Sprintf("WARM_POOL=%d", poolSize)); err != nil {
		return err
	}
	if b.cold, err = b.worker(ctx, "cold", "WARM_POOL=0"); err != nil {
		return err
	}
	return o.report(ctx, benchresult.Report{
		Title: "Worker", Command: "make bench-worker", On: []string{b.build.version}, Rounds: o.rounds, Notes: notes(),
	}, b.parts())
}

// notes returns the explanations below the table.
func notes() string {
	text := `All tools launch the same Chromium, headless, and open the same page on this machine. Two times are measured from the
	request for a browser: to the first answer of the browser that the client receives, and to the load event of the page. The
	worker gets its requests over HTTP and requests a slot from svc-cloud for each launch. The other tools run as their
	documentation recommends for programs that launch many browsers: rod and playwright run-server are servers that launch a
	browser for each connection, chromedriver is a server that creates sessions, and the others are libraries in a long-running
	process. The worker's own share of a launch is the response time without the two calls to the cloud and without the time
	that Chromium takes from its start to its first answer. Memory includes all processes of svc-worker. A burst is measured in
	fewer rounds.
	`
	if os.Geteuid() == 0 {
		text += "This run was as root. The other tools start Chromium without its sandbox, which does not work for root; the worker starts it with the sandbox.\n"
	}
	return text
}
