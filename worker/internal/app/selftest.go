package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/selftest"
)

// selftestCommand tries the worker out on this machine. What it finds goes to
// out, how far it has come to progress.
func selftestCommand(out, progress io.Writer) program.Command[Config] {
	var (
		seconds, rounds, browser int
		seed                     uint64
		asJSON                   bool
	)
	return program.Command[Config]{
		Name: "selftest", Summary: "Try out whether browsers work on this machine, and whether anything is left of them",
		Detail: "It runs a worker of its own, with the settings of the environment, before a cloud in memory: neither the cloud\n" +
			"nor a key is needed, and a worker that runs here is left alone. It launches, drives, kills and cuts off browsers in\n" +
			"every way, several at once; then it kills the worker itself, and looks for what is left: processes, ports,\n" +
			"descriptors, directories, displays, mounts, slots. It exits with 1 when something is left or went wrong.",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&seconds, "seconds", 60, "For how many `SECONDS` browsers are launched")
			f.IntVar(&rounds, "rounds", 0, "Go every way `N` times instead, however long that takes")
			f.IntVar(&browser, "browser", 0, "The major `VERSION` of the browser; the newest when not given")
			f.Uint64Var(&seed, "seed", 0, "Choose as an earlier run of this `SEED` did")
			f.BoolVar(&asJSON, "json", false, "Report in JSON")
		},
		Run: func(ctx context.Context, config Config, _ *slog.Logger) error {
			if seconds < 1 || rounds < 0 {
				return errors.New("--seconds must be above 0, --rounds must not be below")
			}
			executable, err := os.Executable()
			if err != nil {
				return err
			}
			dataDir, err := filepath.Abs(config.DataDir)
			if err != nil {
				return err
			}
			report, err := selftest.Run(ctx, selftest.Options{
				Program: []string{executable, "serve"}, Environ: os.Environ(), Duration: time.Duration(seconds) * time.Second,
				BrowsersDirs: strings.Join(config.browsersDirs(dataDir), string(os.PathListSeparator)),
				Rounds:       rounds, Version: browser, Seed: seed, Progress: progress,
			})
			if err != nil {
				return err
			}
			return writeSelftestReport(out, report, asJSON)
		},
	}
}

// writeSelftestReport writes a report; its error is for the exit status.
func writeSelftestReport(out io.Writer, report *selftest.Report, asJSON bool) error {
	write := report.Write
	if asJSON {
		write = func(out io.Writer) error {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(report)
		}
	}
	if err := write(out); err != nil {
		return err
	}
	failed := 0
	for _, c := range report.Checks {
		failed += min(len(c.Problems), 1)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(report.Checks))
	}
	return nil
}
