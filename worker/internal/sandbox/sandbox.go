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
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The paths inside a room with files of its own.
const (
	HomeDir    = "/svc/home"
	TempDir    = "/tmp"
	DataDir    = "/svc/data"
	XAuthority = "/svc/xauth" // manager the display
)

// NewSandbox is a place for one launch. It begins empty, with a process that waits.
type Sandbox struct {
	manager   *Manager
	pieces    pieces
	conn      *net.UnixConn
	childConn *os.File // the line's other end, until the process has it
	cgroup    *cgroup
	etc       *os.Root // nil without files of its own
	data      *os.Root
	proxy     net.Listener // nil without a network of its own
	sockets   *socketPool  // the same
}

// Config is what a room is furnished for.
type Config struct {
	UID        int    // to run as; -1 for the worker's own
	Program    string // with its path on the host, which is the same inside
	Args       []string
	Env        []string
	Dir        string // to run in, when the room has no files of its own
	Timezone   string // the time zone inside, an IANA name; "" is the host's
	Proxy      int    // the port where the browser looks for its proxy
	Display    string // the X server's socket; "" for no window
	XAuthority string // the file that opens it
}

// NewSandbox makes a room. The command of Command is to be started next.
func (i *Manager) NewSandbox() (*Sandbox, error) { return i.newSandbox(i.pieces) }

func (i *Manager) newSandbox(with pieces) (*Sandbox, error) {
	line, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	r := &Sandbox{manager: i, pieces: with, conn: line, childConn: theirs}
	if err := send(context.Background(), line, baseConfig{pieces: with, Disk: i.opts.Disk}); err != nil { // the line is empty: it does not wait
		r.Close()
		return nil, fmt.Errorf("room: %w", err)
	}
	if r.cgroup, err = i.cgroups.newCgroup(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Command is the room's first process. The program will have read and write as
// its descriptors 3 and 4; nil leaves them out.
func (r *Sandbox) Command(read, write, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(r.manager.opts.Program, Command) //nolint:noctx // it outlives the launch
	cmd.Args[0] = "svc-worker"
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off", childEnv + "=1"}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{read, write, r.childConn}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.SysProcAttr = r.pieces.sysProcAttr()
	return cmd
}

// sysProcAttr are the namespaces that a process starts in.
func (p pieces) sysProcAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if p.Mount {
		a.Cloneflags |= unix.CLONE_NEWNS
	}
	if p.PID {
		a.Cloneflags |= unix.CLONE_NEWPID
	}
	if p.Network {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	if !p.User || a.Cloneflags == 0 {
		return a
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		return a
	}
	a.UidMappings, a.GidMappings = identityMap("/proc/self/uid_map"), identityMap("/proc/self/gid_map")
	a.GidMappingsEnableSetgroups = true
	return a
}

// identityMap maps each id that there is to itself.
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

// ProcessStarted tells the room that its process runs, with this number.
func (r *Sandbox) ProcessStarted(pid int) error {
	r.childConn.Close()
	r.childConn = nil
	return r.cgroup.add(pid)
}

// AddProcess has a process outside, which works for the launch, share its limits and
// its end.
func (r *Sandbox) AddProcess(pid int) error { return r.cgroup.add(pid) }

// Setup makes the room ready for a launch and returns once the process there
// has given up all that it does not need. The worker may then see to the files
// of the launch, and Exec follows.
func (r *Sandbox) Setup(ctx context.Context, l Config) error {
	o := setupRequest{
		UID: l.UID, Program: l.Program, Args: append([]string{l.Program}, l.Args...), Env: l.Env,
		Proxy: l.Proxy, Dir: l.Dir, Timezone: l.Timezone, Window: l.Display != "",
		SetuidHelper: !r.pieces.NestedUser && hasSetuidHelper(l.Program),
	}
	if r.pieces.Private {
		o.Dir = HomeDir
		dir := filepath.Dir(l.Program)
		if file := r.manager.workerDirBelow(dir); file != "" {
			return fmt.Errorf("%s lies beside the worker's own files, in %s: put it into a directory of its own", l.Program, file)
		}
		o.Binds = []bindMount{{dir, dir}}
		if o.Window {
			o.Binds = append(o.Binds, bindMount{l.Display, l.Display}, bindMount{l.XAuthority, XAuthority})
		}
	}
	_, err := r.request(ctx, o)
	return err
}

// setupRequest sends an order and takes the room's answer to it.
func (r *Sandbox) request(ctx context.Context, o setupRequest) (response, error) {
	if err := send(ctx, r.conn, o); err != nil {
		return response{}, fmt.Errorf("room: %w", err)
	}
	a, files, err := receive(ctx, r.conn)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case errors.Is(err, io.EOF):
		return a, errors.New("room: its process has ended")
	case err != nil:
		return a, fmt.Errorf("room: %w", err)
	case a.Error != "":
		return a, fmt.Errorf("room: %w", a.err())
	case len(files) != r.pieces.descriptorCount():
		return a, fmt.Errorf("room: it gave %d descriptors", len(files))
	}
	if r.pieces.Private {
		if r.etc, err = openRoot(files[0]); err != nil {
			return a, err
		}
		if r.data, err = openRoot(files[1]); err != nil {
			return a, err
		}
		files[0].Close()
		files[1].Close()
		files = files[2:]
	}
	if r.pieces.Network {
		if r.proxy, err = net.FileListener(files[0]); err != nil {
			return a, fmt.Errorf("room: %w", err)
		}
		files[0].Close()
		r.sockets, files = &socketPool{free: files[1:]}, nil
	}
	return a, nil
}

// Proxy listens where the room's browser looks for its proxy; nil without a
// network of its own. It is closed with the room.
func (r *Sandbox) Proxy() net.Listener { return r.proxy }

// Dial connects to a port of the room's loopback, where the room has a network
// of its own.
func (r *Sandbox) Dial(port int) (net.Conn, error) { return r.sockets.dial(port) }

// openRoot is the directory behind a descriptor, whatever namespace it is of.
func openRoot(dir *os.File) (*os.Root, error) {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return nil, fmt.Errorf("room: %w", err)
	}
	return root, nil
}

// DataDir is the launch's data directory, as long as the room is not closed; nil
// without files of its own. It outlives the processes.
func (r *Sandbox) Data() *os.Root { return r.data }

// Exec has the process become the program, and returns when it has. When the
// kernel ends a process for want of memory, within the launch's own bound,
// starved is called.
func (r *Sandbox) Exec(ctx context.Context, starved func()) error {
	r.cgroup.watchOOM(starved)
	if err := send(ctx, r.conn, "go"); err != nil {
		return fmt.Errorf("room: %w", err)
	}
	a, _, err := receive(ctx, r.conn)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("room: %w", err)
	}
	return a.err()
}

// SetTimezone moves the room to a time zone, an IANA name that HasTimezone. Programs
// that watch /etc/localtime take note by themselves.
func (r *Sandbox) SetTimezone(name string) error {
	if r.etc == nil {
		return errNoPrivateFiles
	}
	const fresh = "localtime.next"
	_ = r.etc.Remove(fresh)
	if err := r.etc.Symlink(zoneinfoDir+name, fresh); err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	if err := r.etc.Rename(fresh, "localtime"); err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	return nil
}

// OutOfMemory reports whether the kernel ended a process in the room because
// the launch had used up its memory.
func (r *Sandbox) OutOfMemory() bool { return r.cgroup.oomKilled() }

// Kill ends every process in the room, where the kernel can do that at once.
func (r *Sandbox) Kill() { r.cgroup.kill() }

// Close gives the room up. Its processes must have ended; stragglers are killed.
func (r *Sandbox) Close() {
	_ = r.conn.Close()
	if r.childConn != nil {
		r.childConn.Close()
	}
	for _, root := range []*os.Root{r.etc, r.data} {
		if root != nil {
			root.Close()
		}
	}
	if r.sockets != nil {
		r.proxy.Close()
		r.sockets.close()
	}
	if r.cgroup != nil {
		if err := r.cgroup.remove(); err != nil {
			r.manager.opts.Log.Error("control group not removed", "error", err)
		}
	}
}

// Timezone is the room's time zone, unless it is a file of the host's own.
func (r *Sandbox) Timezone() (string, error) {
	if r.etc == nil {
		return "", errNoPrivateFiles
	}
	target, err := r.etc.Readlink("localtime")
	if err != nil {
		return "", fmt.Errorf("time zone: %w", err)
	}
	return strings.TrimPrefix(target, zoneinfoDir), nil
}

var errNoPrivateFiles = errors.New("the room has no files of its own")

// hasSetuidHelper reports whether a build comes with a setuid sandbox helper.
func hasSetuidHelper(program string) bool {
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(filepath.Dir(program), "chrome-sandbox"), &st)
	return err == nil && st.Uid == 0 && st.Mode&unix.S_ISUID != 0
}
