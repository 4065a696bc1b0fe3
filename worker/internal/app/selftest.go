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

// selftestCommand tests the worker on this machine. The report goes to out,
// progress to progress.
func selftestCommand(out, progress io.Writer) program.Command[Config] {
	var (
		seconds, rounds, browser int
		seed                     uint64
		asJSON                   bool
		engine                   string
	)
	return program.Command[Config]{
		Name: "selftest", Summary: "Test that browsers work on this machine and leak no resources",
		Detail: "Runs a separate worker with the settings of the environment against an in-memory cloud. It needs neither the\n" +
			"cloud nor a key and does not affect a running worker. It launches, drives, kills and disconnects browsers in all\n" +
			"scenarios, several at once. Then it kills the worker and checks for leaked processes, ports, file descriptors,\n" +
			"directories, displays, mounts and slots. Exits with 1 if a check fails.",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&seconds, "seconds", 60, "Launch browsers for this many `SECONDS`")
			f.IntVar(&rounds, "rounds", 0, "Run every scenario `N` times instead, without a time limit")
			f.IntVar(&browser, "browser", 0, "Major `VERSION` of the browser (default: newest)")
			f.StringVar(&engine, "engine", "", "Engine of the browser, `ENGINE`: chromium or headless-shell (default: chromium if it is installed)")
			f.Uint64Var(&seed, "seed", 0, "Repeat the random choices of an earlier run with this `SEED`")
			f.BoolVar(&asJSON, "json", false, "Report in JSON")
		},
		Run: func(ctx context.Context, config Config, _ *slog.Logger) error {
			if seconds < 1 || rounds < 0 {
				return errors.New("--seconds must be positive, and --rounds must not be negative")
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
				Rounds:       rounds, Version: browser, Engine: engine, Seed: seed, Progress: progress,
			})
			if err != nil {
				return err
			}
			return writeSelftestReport(out, report, asJSON)
		},
	}
}

// writeSelftestReport writes a report. It returns an error if a check failed,
// which sets the exit status.
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
