package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	for _, p := range processes(func(p procInfo) bool { return p.pgid != syscall.Getpgrp() }) {
		if id, ok := launchOf(p.pid, l.opts.Dir); ok && !l.isLive(id) {
			groups[p.pgid] = true
		}
	}
	if len(groups) == 0 {
		return 0
	}
	match := func(p procInfo) bool { return groups[p.pgid] }
	count := len(processes(match))
	if err := killAll(match); err != nil {
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
		if l.uids != nil && l.uids.acquireID(r.UID) {
			defer l.uids.release(r.UID)
			report.Processes += len(processes(byUID(r.UID)))
			if err := killAll(byUID(r.UID)); err != nil {
				return err
			}
			report.Displays += removeSocketsOf(r.UID)
			removeKeymaps(r.UID)
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
	case r.Socket != (socketID{}) && removeSocket(r.Display, r.Socket):
		return 1
	case r.Socket == (socketID{}) && !r.DisplaySince.IsZero():
		return removeOrphanedSockets(os.Getuid(), r.DisplaySince)
	}
	return 0
}

// removeSocketsOf removes all display sockets of a user without processes,
// including those of displays that died before they were recorded.
func removeSocketsOf(uid int) int {
	removed := 0
	for number, socket := range socketsOf(uid) {
		if removeSocket(number, socket) {
			removed++
		}
	}
	return removed
}

// removeKeymaps removes the keymap of a server that died while compiling it. The
// file is named after the display number and would prevent servers of other
// users from using that number. The user must run no other server.
func removeKeymaps(owner int) {
	paths, _ := filepath.Glob("/tmp/server-*.xkm")
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && int(st.Uid) == owner {
			os.Remove(path)
		}
	}
}

// removeOrphanedSockets removes the sockets of a server that died before it
// reported its number: those that its user created since then and that no
// process uses. A killed process may hold one for a moment. It returns their
// number.
func removeOrphanedSockets(owner int, since time.Time) (removed int) {
	const timeout = time.Second
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		all, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return removed
		}
		held := false
		for number, socket := range socketsOf(owner) {
			switch {
			case socket.Changed < since.UnixNano():
			case bytes.Contains(all, []byte(" "+socketPath(number)+"\n")):
				held = true
			case removeSocket(number, socket):
				removed++
			}
		}
		if !held || time.Now().After(deadline) {
			return removed
		}
	}
}
