package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// isolation is what launches may take.
func (c Config) isolation() *sandbox.Options {
	return &sandbox.Options{Disk: c.LaunchDisk << 20, Memory: c.LaunchMemory << 20, Processes: c.LaunchPIDs}
}

// noSandboxAllowed reports whether launches go on where this host denies Chromium
// its sandbox. That shows for some browsers only when they are started.
func (c Config) noSandboxAllowed() bool { return c.AllowNoSandbox && !c.RequireIsolation }

// checkIsolation says what this host denies, which is an error where all is
// required.
func (c Config) checkIsolation(report sandbox.Report, logger *slog.Logger) error {
	var problems []error
	for _, piece := range report.Missing() {
		problems = append(problems, fmt.Errorf("%s: %s", piece.Name, piece.Reason))
		logger.Warn("launches are isolated without a piece that this host denies", "piece", piece.Name, "reason", piece.Reason)
	}
	if c.RequireIsolation && len(problems) > 0 {
		return fmt.Errorf("REQUIRE_ISOLATION is set, but this host denies: %w", errors.Join(problems...))
	}
	return nil
}
