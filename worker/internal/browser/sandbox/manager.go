package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Options configure the limits of launches and how sandboxes are created.
type Options struct {
	WorkerDir string // a directory of the worker's files; sandboxes hide it, the working directory and the program's directory
	Program   string // calls Main when its argument is Command; the worker's own program by default
	Disk      int64  // limit of a launch's files and, separately, of its shared memory, in bytes; 0 is unlimited
	Memory    int64  // limit in bytes; 0 is unlimited
	Processes int    // limit of processes and threads; 0 is unlimited

	// Pressure reports whether the memory of all launches together is nearly full. Where the
	// kernel does not limit the memory of each, the largest launch is then ended. It may be nil.
	Pressure func() bool

	Disabled []string // pieces to switch off, for tests
	Log      *slog.Logger
}

// Start starts a command that must end with the worker. The returned function
// kills the process and waits until it has ended.
type Start func(*exec.Cmd) (end func(), err error)

// Manager creates sandboxes with the isolation pieces that this host supports.
type Manager struct {
	opts Options
	// pieces are the isolation pieces of a sandbox.
	pieces     isolationParts
	workerDirs []string // directories with the worker's files
	cgroups    *cgroupManager
	processes  int          // limit of processes and threads without a control group; 0 is unlimited
	watch      *memoryWatch // nil where control groups limit the memory, and where it cannot be watched
	report     Report
}

// isolationParts are the kinds of isolation of a sandbox. No host allows some namespaces
// without the others.
type isolationParts struct {
	Namespaces bool // PID, network, mount, IPC and UTS namespaces, with private files
	User       bool // the namespaces belong to a user namespace
	SharedProc bool // /proc is the worker's: it lists all processes, which belong to other users or user namespaces
	Offline    bool // the network has no interface and no sockets
}

// inUserNamespace reports whether the sandbox has a user namespace, which allows the
// worker to create the others.
func (p isolationParts) inUserNamespace() bool { return p.User && p.Namespaces }

// connects reports whether the sandbox has a network that the worker can connect to.
func (p isolationParts) connects() bool { return p.Namespaces && !p.Offline }

// Open finds out what this host supports with a process that start starts, and
// removes the control groups that an earlier worker with the same state directory
// left. No other worker may use the directory.
func Open(ctx context.Context, opts Options, state string, start Start) (*Manager, error) {
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("sandbox: the program does not call sandbox.Main")
	}
	if opts.Program == "" {
		opts.Program = "/proc/self/exe"
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{opts: opts, workerDirs: findWorkerDirs(opts.WorkerDir)}
	found := findings{}
	for _, name := range opts.Disabled {
		found.disable(name, errors.New("switched off"))
	}
	var err error
	if m.cgroups, err = openCgroupManager(state, opts, found); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if err := m.probe(ctx, start, found); err != nil {
		m.cgroups.close()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	ownUser := os.Geteuid() == 0 || m.pieces.inUserNamespace() && hasProcessLimits()
	if !found.enabled(ProcessLimit) && !slices.Contains(opts.Disabled, ProcessLimit) && ownUser {
		m.processes = opts.Processes
		delete(found, ProcessLimit)
	}
	if !found.enabled(MemoryLimit) && !slices.Contains(opts.Disabled, MemoryLimit) && m.pieces.Namespaces {
		m.watch = startMemoryWatch(opts)
		delete(found, MemoryLimit)
	}
	if err := m.checkShownFiles(); err != nil {
		found.disable(PrivateFiles, err)
	}
	if os.Geteuid() != 0 {
		found.disable(UserID, errors.New("the worker is not root: browsers run as the worker's user"))
	}
	for _, name := range Pieces() {
		reason, off := found[name]
		if !off {
			reason = m.note(name)
		}
		m.report.Pieces = append(m.report.Pieces, Piece{Name: name, On: !off, Reason: reason})
	}
	return m, nil
}

// note returns additional information on a piece that is on.
func (m *Manager) note(name string) string {
	switch {
	case name == MemoryLimit && m.opts.Memory == 0, name == ProcessLimit && m.opts.Processes == 0:
		return "no limit is set"
	case name == MemoryLimit && m.watch != nil:
		return fmt.Sprintf("%d MB, watched by the worker", m.opts.Memory>>20)
	case name == MemoryLimit:
		return fmt.Sprintf("%d MB", m.opts.Memory>>20)
	case name == ProcessLimit:
		return fmt.Sprintf("%d processes and threads", m.opts.Processes)
	}
	return ""
}

// Report returns which pieces are on.
func (m *Manager) Report() Report { return m.report }

// Private reports whether sandboxes have their own files. Their paths inside are
// then HomeDir, TempDir, DataDir and XAuthority. This is independent of the
// report, which lists private files as off if sandboxes show the worker's own
// files.
func (m *Manager) Private() bool { return m.pieces.Namespaces }

// SharedMemory returns the size of /dev/shm in a sandbox with private files, in
// bytes; 0 is unlimited.
func (m *Manager) SharedMemory() int64 { return m.opts.Disk }

// Close removes the parent control groups. All sandboxes must be closed.
func (m *Manager) Close() {
	m.watch.close()
	m.cgroups.close()
}

// findings are the reasons why pieces are off, by piece.
type findings map[string]string

// disable records the first reason.
func (f findings) disable(name string, err error) {
	if _, ok := f[name]; !ok {
		f[name] = err.Error()
	}
}

func (f findings) enabled(name string) bool { _, off := f[name]; return !off }

// zoneinfoDir contains the time zones, on the host and in the sandbox.
const zoneinfoDir = "/usr/share/zoneinfo/"

// HasTimezone reports whether this host has a time zone, by its IANA name.
func HasTimezone(name string) bool {
	if name == "" || strings.Contains(name, "..") {
		return false
	}
	info, err := os.Stat(filepath.Join(zoneinfoDir, name))
	return err == nil && info.Mode().IsRegular()
}
