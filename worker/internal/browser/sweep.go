package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/browser/process"
)

// SweepReport counts the leftovers of an earlier worker that a sweep removed.
type SweepReport struct {
	Processes   int
	Directories int
	Displays    int // sockets of X servers
}

// Sweep removes what an earlier worker left in the launcher's directory:
// processes with its marker or with a launch's user id, display sockets and
// launch directories. It does not affect other workers or live launches. Call it
// before the first Launch.
func (l *Launcher) Sweep(ctx context.Context) (SweepReport, error) {
	var report SweepReport
	var errs []error
	report.Processes += l.killMarked()
	removeShortLinks(l.opts.Dir, l.isLive)
	entries, err := os.ReadDir(l.opts.Dir)
	if err != nil {
		return report, fmt.Errorf("sweep: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || l.isLive(e.Name()) {
			continue
		}
		if ctx.Err() != nil {
			return report, fmt.Errorf("sweep: %w", ctx.Err())
		}
		if err := l.sweepLaunch(filepath.Join(l.opts.Dir, e.Name()), &report); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return report, fmt.Errorf("sweep: %w", err)
	}
	if l.sandboxes != nil {
		l.sandboxes.refill()
	}
	return report, nil
}

func (l *Launcher) isLive(launchID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[launchID] != nil
}

// killMarked kills the process groups that a launcher of this directory started.
// Sandboxed processes lose the marker but stay in the group.
func (l *Launcher) killMarked() int {
	groups := make(map[int]bool)
	for _, p := range process.List(func(p process.Info) bool { return p.PGID != syscall.Getpgrp() }) {
		if id, ok := process.LaunchID(p.PID, l.opts.Dir); ok && !l.isLive(id) {
			groups[p.PGID] = true
		}
	}
	if len(groups) == 0 {
		return 0
	}
	match := func(p process.Info) bool { return groups[p.PGID] }
	count := len(process.List(match))
	if err := process.KillAll(match); err != nil {
		l.log.Error("failed to kill leftover processes", "error", err)
	}
	return count
}

// sweepLaunch removes one launch. It kills the user's processes only while it
// holds the lock of the user id.
func (l *Launcher) sweepLaunch(root string, report *SweepReport) error {
	r, err := readRecord(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.log.Warn("failed to read launch record", "directory", root, "error", err)
	}
	if err == nil {
		if l.uids != nil && l.uids.AcquireID(r.UID) {
			defer l.uids.Release(r.UID)
			report.Processes += len(process.List(process.ByUID(r.UID)))
			if err := process.KillAll(process.ByUID(r.UID)); err != nil {
				return err
			}
			report.Displays += display.Sweep(r.UID)
		} else {
			report.Displays += r.removeDisplay()
		}
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	report.Directories++
	return nil
}

// removeDisplay removes the socket of a display that ran as the worker's own user. It returns
// the number of sockets removed.
func (r record) removeDisplay() int {
	switch {
	case r.Socket != (display.SocketID{}) && display.RemoveSocket(r.Display, r.Socket):
		return 1
	case r.Socket == (display.SocketID{}) && !r.DisplaySince.IsZero():
		return display.RemoveOrphanedSockets(os.Getuid(), r.DisplaySince)
	}
	return 0
}
