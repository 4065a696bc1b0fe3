package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Options are what launches may take, and how their rooms are made.
type Options struct {
	WorkerDir string // a directory of the worker's files, which no room may show, as little as where the worker runs and where its program is
	Program   string // runs Main when its argument is Command; the worker's own by default
	Disk      int64  // bytes that the files of a launch may take, and its shared memory as many; 0 for no bound
	Memory    int64  // bytes that a launch may take; 0 for no bound
	Processes int    // processes and threads; 0 for no bound

	Disabled []string // pieces to do without, for tests of what they are good for
	Log      *slog.Logger
}

// Start starts a command that is to end with the worker. The returned function
// kills it and waits until it is gone.
type Start func(*exec.Cmd) (end func(), err error)

// Manager makes rooms of the pieces that this host has.
type Manager struct {
	opts       Options
	pieces     pieces
	workerDirs []string // directories of the worker's
	cgroups    *cgroupManager
	report     Report
}

// pieces are what a room is made with.
type pieces struct {
	PID, Mount, Private bool
	Network             bool
	User                bool // all of it within a user namespace
	NestedUser          bool // user namespaces are allowed to what runs in a room
}

// Open tries what this host allows, with canaries that start starts, and removes
// the control groups that an earlier worker of the same state directory left.
// The directory is to be the worker's alone.
func Open(ctx context.Context, opts Options, state string, start Start) (*Manager, error) {
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("isolation: the program does not call Main")
	}
	if opts.Program == "" {
		opts.Program = "/proc/self/exe"
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	i := &Manager{opts: opts, workerDirs: findWorkerDirs(opts.WorkerDir)}
	found := findings{}
	for _, name := range opts.Disabled {
		found.disable(name, errors.New("switched off"))
	}
	var err error
	if i.cgroups, err = openCgroupManager(state, opts, found); err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	if err := i.probe(ctx, start, found); err != nil {
		i.cgroups.close()
		return nil, fmt.Errorf("isolation: %w", err)
	}
	if err := i.checkShownFiles(); err != nil {
		found.disable(PrivateFiles, err)
	}
	if os.Geteuid() != 0 {
		found.disable(UserID, errors.New("the worker is not root: browsers run as its own user"))
	}
	for _, name := range Pieces() {
		reason, off := found[name]
		if !off {
			reason = i.note(name)
		}
		i.report.Pieces = append(i.report.Pieces, Piece{Name: name, On: !off, Reason: reason})
	}
	return i, nil
}

// note is what there is to know of a piece that is on.
func (i *Manager) note(name string) string {
	switch {
	case name == MemoryLimit && i.opts.Memory == 0, name == ProcessLimit && i.opts.Processes == 0:
		return "no limit is set"
	case name == MemoryLimit:
		return fmt.Sprintf("%d MB", i.opts.Memory>>20)
	case name == ProcessLimit:
		return fmt.Sprintf("%d processes and threads", i.opts.Processes)
	}
	return ""
}

// Report says what holds.
func (i *Manager) Report() Report { return i.report }

// Private reports whether rooms have files of their own; their paths inside are
// HomeDir, TempDir, DataDir and XAuthority then. That is so, too, where the report denies it
// since the worker's own files lie among what rooms need.
func (i *Manager) Private() bool { return i.pieces.Private }

// SharedMemory is how much of it a room of its own files has, in bytes; 0 for
// no bound.
func (i *Manager) SharedMemory() int64 { return i.opts.Disk }

// Close removes what the rooms' control groups were made in. All rooms must be
// closed.
func (i *Manager) Close() { i.cgroups.close() }

// findings are why pieces are off, by name.
type findings map[string]string

// disable notes the first reason.
func (f findings) disable(name string, err error) {
	if _, known := f[name]; !known {
		f[name] = err.Error()
	}
}

func (f findings) enabled(name string) bool { _, off := f[name]; return !off }

// zoneinfoDir is where time zones are, outside and inside.
const zoneinfoDir = "/usr/share/zoneinfo/"

// HasTimezone reports whether this host knows a time zone by its IANA name.
func HasTimezone(name string) bool {
	if name == "" || strings.Contains(name, "..") {
		return false
	}
	info, err := os.Stat(filepath.Join(zoneinfoDir, name))
	return err == nil && info.Mode().IsRegular()
}

// SameTimezone reports whether two names are of one time zone, as this host has it.
func SameTimezone(a, b string) bool {
	if a == b {
		return true
	}
	if !HasTimezone(a) || !HasTimezone(b) {
		return false
	}
	one, err := os.ReadFile(filepath.Join(zoneinfoDir, a))
	if err != nil {
		return false
	}
	other, err := os.ReadFile(filepath.Join(zoneinfoDir, b))
	return err == nil && bytes.Equal(one, other)
}
