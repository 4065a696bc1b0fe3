package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Paths inside a sandbox with private files.
const (
	HomeDir  = "/svc/home"
	TempDir  = "/tmp"
	DataDir  = "/svc/data"
	FilesDir = "/svc/files" // Config.Files

	ExtensionsDir = "/svc/extensions" // for Config.ReadOnly

	DownloadsDir = FilesDir + "/downloads"
	XAuthority   = "/svc/xauth" // of the display
)

// Sandbox isolates one launch. It starts with a process that waits for Setup.
type Sandbox struct {
	manager   *Manager
	pieces    isolationParts
	conn      *net.UnixConn
	childConn *os.File // the other end of conn, until the process has started
	cgroup    *cgroup
	first     process     // waits for Setup, then execs the program
	overLimit atomic.Bool // the worker has ended it because of its memory
	stopOrder []process   // the processes that SetFrozen has stopped
	root      *os.File    // nil without private files, like data
	data      *os.Root
	proxy     net.Listener // nil without a separate network, and offline
	sockets   *socketPool  // as proxy
}

// Config configures a sandbox for a launch.
type Config struct {
	UID        int    // user id; -1 is the worker's own
	Program    string // path, the same on the host and in the sandbox
	Args       []string
	Env        []string
	Dir        string   // working directory, if files are not private
	Writable   []string // the launch's directories and files; if files are not private, it can open only these and what browsers need
	Files      string   // directory on the disk that the launch shares with the worker; "" for none
	ReadOnly   []Mount  // directories of the host that the launch can read
	Policy     []byte   // of Chromium, JSON, if files are private; nil: the program is no browser that reads one
	Timezone   string   // IANA name; "" is the host's
	Proxy      int      // port where the browser expects its proxy
	Display    string   // socket of the X server; "" when headless
	XAuthority string   // Xauthority file of the display
	Limits     Limits   // of the program
}

// Mount is a path on the host and its path in a sandbox with private files.
type Mount struct {
	From, To string
	Writable bool // otherwise read-only
}

// NewSandbox creates a sandbox. The caller then starts the command of Command.
func (m *Manager) NewSandbox() (*Sandbox, error) {
	return m.newSandbox(baseConfig{isolationParts: m.pieces})
}

// NewOfflineSandbox creates a sandbox for a program that needs no network, not even a loopback.
func (m *Manager) NewOfflineSandbox() (*Sandbox, error) {
	base := baseConfig{isolationParts: m.pieces}
	base.Offline = true
	return m.newSandbox(base)
}

func (m *Manager) newSandbox(base baseConfig) (*Sandbox, error) {
	conn, childConn, err := socketPair()
	if err != nil {
		return nil, err
	}
	r := &Sandbox{manager: m, pieces: base.isolationParts, conn: conn, childConn: childConn}
	base.Disk, base.WorkerUID, base.WorkerGID = m.opts.Disk, os.Geteuid(), os.Getegid()
	if err := send(context.Background(), conn, base); err != nil { // the socket buffer is empty: this does not block
		r.Close()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if r.cgroup, err = m.cgroups.newCgroup(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Command returns the sandbox's first process. The program gets read and write
// as descriptors 3 and 4; nil leaves them out.
func (s *Sandbox) Command(read, write, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(s.manager.opts.Program, Command) //nolint:noctx // outlives the launch's context
	cmd.Args[0] = "svc-worker"
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off", childEnv + "=1"}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{read, write, s.childConn}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.SysProcAttr = s.pieces.sysProcAttr()
	return cmd
}

// sysProcAttr returns the namespaces that a process starts in.
func (p isolationParts) sysProcAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if p.Namespaces {
		a.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS
	}
	if !p.inUserNamespace() {
		return a
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	if os.Geteuid() != 0 {
		a.AmbientCaps = append(a.AmbientCaps, unix.CAP_SETUID, unix.CAP_SETGID) // for mapUser
		return a
	}
	a.UidMappings, a.GidMappings = identityMap("/proc/self/uid_map"), identityMap("/proc/self/gid_map")
	a.GidMappingsEnableSetgroups = true
	return a
}

// identityMap maps each id to itself.
func identityMap(file string) (same []syscall.SysProcIDMap) {
	raw, _ := os.ReadFile(file)
	for line := range strings.Lines(string(raw)) {
		var first, outside, count int
		if n, _ := fmt.Sscan(line, &first, &outside, &count); n == 3 {
			same = append(same, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: count})
		}
	}
	return same
}

// ProcessStarted must be called with the pid after the command has started.
func (s *Sandbox) ProcessStarted(pid int) error {
	s.childConn.Close()
	s.childConn = nil
	s.first, _ = readProcess(pid)
	return s.cgroup.add(pid)
}

// AddProcess moves a process outside the sandbox, which works for the launch,
// into its control group: it shares the limits and is killed with the launch.
func (s *Sandbox) AddProcess(pid int) error { return s.cgroup.add(pid) }

// Setup prepares the sandbox for a launch and returns once its process has
// dropped its privileges. The caller may then write the launch's files, and
// calls Exec.
func (s *Sandbox) Setup(ctx context.Context, l Config) error {
	o := setupRequest{
		UID: l.UID, Program: l.Program, Args: append([]string{l.Program}, l.Args...), Env: l.Env,
		Proxy: l.Proxy, Dir: l.Dir, Timezone: l.Timezone, Window: l.Display != "",
		Limits: l.Limits,
	}
	o.Limits.Processes = int64(s.manager.processes)
	if !s.pieces.Namespaces {
		o.Writable = l.Writable
		if l.Files != "" {
			o.Writable = append(slices.Clip(o.Writable), l.Files)
		}
		for _, mount := range l.ReadOnly {
			o.Readable = append(o.Readable, mount.From)
		}
		if o.Window {
			o.Readable = append(o.Readable, l.XAuthority)
		}
	} else {
		o.Dir, o.Policy = HomeDir, l.Policy
		dir := filepath.Dir(l.Program)
		if file := s.manager.workerDirBelow(dir); file != "" {
			return fmt.Errorf("%s is in the same directory as the worker's files in %s: move it to a separate directory", l.Program, file)
		}
		o.Binds = append([]Mount{{From: dir, To: dir}}, l.ReadOnly...)
		if l.Files != "" {
			o.Binds = append(o.Binds, Mount{From: l.Files, To: FilesDir, Writable: true})
		}
		if o.Window {
			o.Binds = append(o.Binds, Mount{From: l.Display, To: l.Display}, Mount{From: l.XAuthority, To: XAuthority})
		}
	}
	_, err := s.request(ctx, o)
	return err
}

// request sends a setup request and handles the response.
func (s *Sandbox) request(ctx context.Context, o setupRequest) (response, error) {
	if err := send(ctx, s.conn, o); err != nil {
		return response{}, fmt.Errorf("sandbox: %w", err)
	}
	a, files, err := receive(ctx, s.conn)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case errors.Is(err, io.EOF):
		return a, errors.New("sandbox: its process has ended")
	case err != nil:
		return a, fmt.Errorf("sandbox: %w", err)
	case a.Error != "":
		return a, fmt.Errorf("sandbox: %w", a.err())
	case len(files) != s.pieces.descriptorCount():
		return a, fmt.Errorf("sandbox: received %d descriptors: %w", len(files), syscall.EMFILE) // the kernel drops those above the limit
	}
	if s.pieces.Namespaces {
		s.root, files = files[0], files[1:]
		if s.data, err = openRoot(files[0]); err != nil {
			return a, err
		}
		files[0].Close()
		files = files[1:]
	}
	if s.pieces.connects() {
		if s.proxy, err = net.FileListener(files[0]); err != nil {
			return a, fmt.Errorf("sandbox: %w", err)
		}
		files[0].Close()
		s.sockets, files = &socketPool{free: files[1:]}, nil
	}
	return a, nil
}

// Proxy listens where the browser in the sandbox expects its proxy; nil without
// a separate network. Close closes it.
func (s *Sandbox) Proxy() net.Listener { return s.proxy }

// Dial connects to a port on the sandbox's loopback. The sandbox must have a
// separate network. closed is called once the connection is closed, not after an error;
// it may be nil.
func (s *Sandbox) Dial(port int, closed func()) (net.Conn, error) {
	return s.sockets.dial(port, closed)
}

// openRoot opens the directory of a descriptor, in any mount namespace.
func openRoot(dir *os.File) (*os.Root, error) {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return root, nil
}

// Data returns the launch's data directory until Close; nil without private
// files. It outlives the processes.
func (s *Sandbox) Data() *os.Root { return s.data }

// Root returns the sandbox's root directory until Close, for openat2 with
// RESOLVE_IN_ROOT; nil without private files.
func (s *Sandbox) Root() *os.File { return s.root }

// Exec makes the waiting process exec the program and returns when it has. onOOM
// is called to end a launch whose memory the worker watches.
func (s *Sandbox) Exec(ctx context.Context, onOOM func()) error {
	s.manager.watch.add(s, onOOM)
	if err := send(ctx, s.conn, "go"); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	a, _, err := receive(ctx, s.conn)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("sandbox: %w", err)
	}
	return a.err()
}

// OutOfMemory reports whether the kernel killed a process in the sandbox because
// of its memory limit, or the worker ended the sandbox because of its memory.
func (s *Sandbox) OutOfMemory() bool { return s.cgroup.oomKilled() || s.overLimit.Load() }

// Kill kills every process in the sandbox, if the kernel supports cgroup.kill, and
// waits until they have ended.
func (s *Sandbox) Kill() {
	s.cgroup.kill()
	s.cgroup.awaitEmpty()
}

// Close releases the sandbox. Its processes must have ended; remaining ones are
// killed.
func (s *Sandbox) Close() {
	s.manager.watch.remove(s)
	_ = s.conn.Close()
	if s.childConn != nil {
		s.childConn.Close()
	}
	if s.data != nil {
		s.data.Close()
	}
	if s.root != nil {
		s.root.Close()
	}
	if s.sockets != nil {
		s.proxy.Close()
		s.sockets.close()
	}
	if s.cgroup != nil {
		if err := s.cgroup.remove(); err != nil {
			s.manager.opts.Log.Error("failed to remove control group", "error", err)
		}
	}
}
