// contract is `make contract`: it verifies that the documents in openapi/ and the
// two servers match. It starts a cloud and a worker with seeded data, runs the
// stages below and prints a summary.
//
//	go run ./scripts/contract                             everything
//	go run ./scripts/contract --stage lint,examples       only these stages
//	go run ./scripts/contract --examples 1000             more random examples
//
// The output stays in bin/contract: the logs of the stages and the servers,
// seed.json, and the observed responses in seen/. A complete run clears seen/
// first; a run of some stages adds to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/browser-svc/svc/shared/contracttest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "make contract:", err)
		os.Exit(1)
	}
}

// stages returns all stages in the order in which they run.
func stages() []stage {
	return []stage{
		{name: "lint", run: (*testEnvironment).lint},
		{name: "released", run: (*testEnvironment).released},
		{name: "examples", run: (*testEnvironment).examples, live: true},
		{name: "schemathesis", run: (*testEnvironment).schemathesis, live: true},
		{name: "sdks", run: (*testEnvironment).sdks, live: true},
		{name: "tests", run: (*testEnvironment).tests},
		{name: "seen", run: (*testEnvironment).coverage},
		{name: "faults", run: (*testEnvironment).faults, live: true},
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("contract", flag.ContinueOnError)
	only := flags.String("stage", "", "comma-separated `STAGES` to run; default all")
	examples := flags.Int("examples", 300, "random examples per operation")
	sdks := flags.String("sdks", "", "comma-separated `SDKS` to test; default all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(stages(), *only)
	if err != nil {
		return err
	}
	h, err := newTestEnvironment(*examples)
	if err != nil {
		return err
	}
	h.sdkNames = strings.FieldsFunc(*sdks, func(r rune) bool { return r == ',' })
	if *only == "" {
		if err := os.RemoveAll(h.observationsDir); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, h.close()) }()
	results := h.runStages(ctx, chosen)
	if err := h.close(); err != nil {
		return err
	}
	fmt.Print("\n", table(results))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if slices.ContainsFunc(results, result.failed) {
		return errors.New("contract violations found")
	}
	return nil
}

// choose returns the named stages in their own order.
func choose(all []stage, names string) ([]stage, error) {
	if names == "" {
		return all, nil
	}
	var chosen []stage
	selection := strings.Split(names, ",")
	for _, s := range all {
		if slices.Contains(selection, s.name) {
			chosen = append(chosen, s)
			selection = slices.DeleteFunc(selection, func(name string) bool { return name == s.name })
		}
	}
	if len(selection) > 0 {
		return nil, fmt.Errorf("unknown stage: %s", strings.Join(selection, ", "))
	}
	return chosen, nil
}

// newTestEnvironment prepares the directories. The validators of this process record
// their observations, too.
func newTestEnvironment(examples int) (*testEnvironment, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "openapi", "cloud.yaml")); err != nil {
		return nil, fmt.Errorf("run this program in the repository root: %w", err)
	}
	outputDir := filepath.Join(root, "bin", "contract")
	h := &testEnvironment{
		root: root, openapi: filepath.Join(root, "openapi"), outputDir: outputDir, observationsDir: filepath.Join(outputDir, "seen"),
		randomExamples: examples, proxies: &proxies{},
	}
	if err := os.MkdirAll(h.outputDir, 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"cloud", "worker"} {
		if err := os.Remove(h.program(name, "").Log); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return h, os.Setenv(contracttest.ObservationsVariable, h.observationsDir)
}
