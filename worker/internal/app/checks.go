package app

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"syscall"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/host/fleet"
)

// descriptorsPerSession is the most file descriptors that one session uses: its
// egress, the sockets into its sandbox, its files and pipes, and its clients.
const descriptorsPerSession = proxy.MaxDescriptors + 200

// descriptorsPerLaunch is the most file descriptors that one launch uses until its browser is
// ready: the sockets into its sandbox, its files and pipes.
const descriptorsPerLaunch = sandbox.MaxConnections + 64

// maxOpenFiles returns the hard limit of open files. The Go runtime raises the
// soft limit to it.
func maxOpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// checkDescriptors logs a warning if MAX_SESSIONS sessions could use up all file
// descriptors. Then launches and reports to the cloud would fail.
func (c Config) checkDescriptors(limit uint64, logger *slog.Logger) {
	if needed := uint64(c.MaxSessions) * descriptorsPerSession; limit < needed {
		logger.Warn("the limit of open files is too low for MAX_SESSIONS browsers: raise it (ulimit -Hn, LimitNOFILE, --ulimit nofile)",
			"limit", limit, "needed", needed)
	}
}

// isolation returns the resource limits of launches.
func (c Config) isolation() *sandbox.Options {
	return &sandbox.Options{Disk: c.LaunchDisk << 20, Memory: c.LaunchMemory << 20, Processes: launchProcesses, Pressure: fleet.MemoryNearlyFull}
}

// isolationLevel is the isolation of launches without which a worker does not launch browsers.
type isolationLevel string

const (
	isolationFull    isolationLevel = "full"    // launches are separated; the worker does not start otherwise
	isolationSandbox isolationLevel = "sandbox" // Chromium's own sandbox
	isolationNone    isolationLevel = "none"
)

// noSandboxAllowed reports whether browsers may run without Chromium's own sandbox
// if this host does not allow it. Some browsers find that out only when they
// start.
func (c Config) noSandboxAllowed() bool { return c.MinIsolation == isolationNone }

// checkIsolation logs the isolation features that this host does not allow. With
// MIN_ISOLATION=full, those that separate launches are an error.
func (c Config) checkIsolation(report sandbox.Report, logger *slog.Logger) error {
	for _, piece := range report.Missing() {
		logger.Warn("this host does not allow an isolation feature: launches run without it", "feature", piece.Name, "reason", piece.Reason)
	}
	if c.MinIsolation != isolationFull {
		return nil
	}
	var problems []error
	for _, piece := range report.Inseparable() {
		problems = append(problems, fmt.Errorf("%s: %s", piece.Name, piece.Reason))
	}
	if len(problems) > 0 {
		return fmt.Errorf("MIN_ISOLATION is full, but this host does not allow: %w", errors.Join(problems...))
	}
	return nil
}
