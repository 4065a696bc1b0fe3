package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/selftest"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// selftestCommand tests the worker on this machine. The report goes to out.
func selftestCommand(out io.Writer) program.Command[Config] {
	var (
		version int
		asJSON  bool
		engine  string
	)
	return program.Command[Config]{
		Name: "selftest", Summary: "Test that browsers work on this machine and leak no resources",
		Detail: "Launches a browser of each installed engine with the settings of the environment, drives and ends it, and checks\n" +
			"for leaked processes, ports, descriptors, directories, displays, mounts and control groups. Shows the isolation of\n" +
			"browsers and the scripts without a font. It needs neither the cloud nor a key and does not affect a running worker.\n" +
			"Exits with 1 if a check fails.",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&version, "browser", 0, "Major `VERSION` of the browser (default: newest)")
			f.StringVar(&engine, "engine", "", "Only this `ENGINE`: chromium or headless-shell (default: every installed engine)")
			f.BoolVar(&asJSON, "json", false, "Report in JSON")
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			report, err := selftest.Run(ctx, selftest.Options{
				Open: func(ctx context.Context, e selftest.Environment) (*selftest.Worker, error) {
					return config.OpenForSelftest(ctx, e, logger)
				},
				Version: version, Engine: builds.Engine(engine), CleanupTimeout: time.Minute,
			})
			if err != nil {
				return err
			}
			return writeSelftestReport(out, report, asJSON)
		},
	}
}

// OpenForSelftest starts the parts of a worker that launch browsers, in the environment of a
// self-test.
func (c Config) OpenForSelftest(ctx context.Context, e selftest.Environment, logger *slog.Logger) (_ *selftest.Worker, err error) {
	if c.BrowsersDir, err = filepath.Abs(c.browsersDir(c.DataDir)); err != nil {
		return nil, err
	}
	c.DataDir, c.AllowedHosts = e.DataDir, e.AllowedHosts
	w := &worker{config: c, logger: logger, sessions: session.NewStore(clock.System{}), metrics: metrics.NewRegistry()}
	if err := w.readConfig(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closers.Close())
		}
	}()
	if w.files, err = w.openFiles(); err != nil {
		return nil, err
	}
	w.closers.AddFunc(w.files.Wait)
	if w.launcher, err = openLauncher(ctx, c, w.dir, w.files, nil, logger); err != nil {
		return nil, err
	}
	w.closers.Add(w.launcher.Close)
	w.openBuilds()
	w.launches = launch.New(launch.Options{
		License: e.License, Reports: e.Reports, Builds: w.builds, Launcher: denylistLauncher{w.launcher, w.policy}, Sessions: w.sessions,
		Egress: egressProvider{w.policy, w.roots, logger}, Clock: clock.System{}, Logger: logger,
	})
	return &selftest.Worker{Launches: w.launches, Builds: w.builds, Isolation: w.launcher.Isolation, Close: func(ctx context.Context) error {
		return errors.Join(w.launches.Shutdown(ctx), w.closers.Close())
	}}, nil
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
	if failed := report.Failed(); failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(report.Checks))
	}
	return nil
}
