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
	Home   = "/svc/home"
	Temp   = "/tmp"
	Data   = "/svc/data"
	Cookie = "/svc/xauth" // of the display
)

// Room is a place for one launch. It begins empty, with a process that waits.
type Room struct {
	i      *Isolation
	pieces pieces
	line   *net.UnixConn
	theirs *os.File // the line's other end, until the process has it
	group  *group
	etc    *os.Root // nil without files of its own
	data   *os.Root
	proxy  net.Listener // nil without a network of its own
	free   *sockets     // the same
}

// Launch is what a room is furnished for.
type Launch struct {
	UID     int    // to run as; -1 for the worker's own
	Program string // with its path on the host, which is the same inside
	Args    []string
	Env     []string
	Dir     string // to run in, when the room has no files of its own
	Zone    string // the time zone inside, an IANA name; "" is the host's
	Proxy   int    // the port where the browser looks for its proxy
	Display string // the X server's socket; "" for no window
	Cookie  string // the file that opens it
}

// Room makes a room. The command of Command is to be started next.
func (i *Isolation) Room() (*Room, error) { return i.room(i.pieces) }

func (i *Isolation) room(with pieces) (*Room, error) {
	line, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	r := &Room{i: i, pieces: with, line: line, theirs: theirs}
	if err := send(context.Background(), line, frame{pieces: with, Disk: i.opts.Disk}); err != nil { // the line is empty: it does not wait
		r.Close()
		return nil, fmt.Errorf("room: %w", err)
	}
	if r.group, err = i.groups.group(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Command is the room's first process. The program will have read and write as
// its descriptors 3 and 4; nil leaves them out.
func (r *Room) Command(read, write, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(r.i.opts.Program, Command) //nolint:noctx // it outlives the launch
	cmd.Args[0] = "svc-worker"
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off", insideName + "=1"}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{read, write, r.theirs}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.SysProcAttr = r.pieces.attributes()
	return cmd
}

// attributes are the namespaces that a process starts in.
func (p pieces) attributes() *syscall.SysProcAttr {
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
	a.UidMappings, a.GidMappings = sameIDs("/proc/self/uid_map"), sameIDs("/proc/self/gid_map")
	a.GidMappingsEnableSetgroups = true
	return a
}

// sameIDs maps each id that there is to itself.
func sameIDs(file string) (same []syscall.SysProcIDMap) {
	raw, _ := os.ReadFile(file)
	for line := range strings.Lines(string(raw)) {
		var first, outside, count int
		if n, _ := fmt.Sscan(line, &first, &outside, &count); n == 3 {
			same = append(same, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: count})
		}
	}
	return same
}

// Started tells the room that its process runs, with this number.
func (r *Room) Started(pid int) error {
	r.theirs.Close()
	r.theirs = nil
	return r.group.add(pid)
}

// Adopt has a process outside, which works for the launch, share its limits and
// its end.
func (r *Room) Adopt(pid int) error { return r.group.add(pid) }

// Furnish makes the room ready for a launch and returns once the process there
// has given up all that it does not need. The worker may then see to the files
// of the launch, and Enter follows.
func (r *Room) Furnish(ctx context.Context, l Launch) error {
	o := order{
		UID: l.UID, Program: l.Program, Args: append([]string{l.Program}, l.Args...), Env: l.Env,
		Proxy: l.Proxy, Dir: l.Dir, Zone: l.Zone, Window: l.Display != "",
		Helper: !r.pieces.NewUser && hasHelper(l.Program),
	}
	if r.pieces.Private {
		o.Dir = Home
		dir := filepath.Dir(l.Program)
		if file := r.i.ownIn(dir); file != "" {
			return fmt.Errorf("%s lies beside the worker's own files, in %s: put it into a directory of its own", l.Program, file)
		}
		o.Binds = []place{{dir, dir}}
		if o.Window {
			o.Binds = append(o.Binds, place{l.Display, l.Display}, place{l.Cookie, Cookie})
		}
	}
	_, err := r.order(ctx, o)
	return err
}

// order sends an order and takes the room's answer to it.
func (r *Room) order(ctx context.Context, o order) (answer, error) {
	if err := send(ctx, r.line, o); err != nil {
		return answer{}, fmt.Errorf("room: %w", err)
	}
	a, files, err := receive(ctx, r.line)
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
	case len(files) != r.pieces.gives():
		return a, fmt.Errorf("room: it gave %d descriptors", len(files))
	}
	if r.pieces.Private {
		if r.etc, err = rootOf(files[0]); err != nil {
			return a, err
		}
		if r.data, err = rootOf(files[1]); err != nil {
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
		r.free, files = &sockets{free: files[1:]}, nil
	}
	return a, nil
}

// Proxy listens where the room's browser looks for its proxy; nil without a
// network of its own. It is closed with the room.
func (r *Room) Proxy() net.Listener { return r.proxy }

// Dial connects to a port of the room's loopback, where the room has a network
// of its own.
func (r *Room) Dial(port int) (net.Conn, error) { return r.free.dial(port) }

// rootOf is the directory behind a descriptor, whatever namespace it is of.
func rootOf(dir *os.File) (*os.Root, error) {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return nil, fmt.Errorf("room: %w", err)
	}
	return root, nil
}

// Data is the launch's data directory, as long as the room is not closed; nil
// without files of its own. It outlives the processes.
func (r *Room) Data() *os.Root { return r.data }

// Enter has the process become the program, and returns when it has. When the
// kernel ends a process for want of memory, within the launch's own bound,
// starved is called.
func (r *Room) Enter(ctx context.Context, starved func()) error {
	r.group.watch(starved)
	if err := send(ctx, r.line, "go"); err != nil {
		return fmt.Errorf("room: %w", err)
	}
	a, _, err := receive(ctx, r.line)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("room: %w", err)
	}
	return a.err()
}

// SetZone moves the room to a time zone, an IANA name that HasZone. Programs
// that watch /etc/localtime take note by themselves.
func (r *Room) SetZone(name string) error {
	if r.etc == nil {
		return errNoFiles
	}
	const fresh = "localtime.next"
	_ = r.etc.Remove(fresh)
	if err := r.etc.Symlink(zoneinfo+name, fresh); err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	if err := r.etc.Rename(fresh, "localtime"); err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	return nil
}

// OutOfMemory reports whether the kernel ended a process in the room because
// the launch had used up its memory.
func (r *Room) OutOfMemory() bool { return r.group.starved() }

// Kill ends every process in the room, where the kernel can do that at once.
func (r *Room) Kill() { r.group.kill() }

// Close gives the room up. Its processes must have ended; stragglers are killed.
func (r *Room) Close() {
	_ = r.line.Close()
	if r.theirs != nil {
		r.theirs.Close()
	}
	for _, root := range []*os.Root{r.etc, r.data} {
		if root != nil {
			root.Close()
		}
	}
	if r.free != nil {
		r.proxy.Close()
		r.free.close()
	}
	if r.group != nil {
		if err := r.group.remove(); err != nil {
			r.i.opts.Log.Error("control group not removed", "error", err)
		}
	}
}

// Zone is the room's time zone, unless it is a file of the host's own.
func (r *Room) Zone() (string, error) {
	if r.etc == nil {
		return "", errNoFiles
	}
	target, err := r.etc.Readlink("localtime")
	if err != nil {
		return "", fmt.Errorf("time zone: %w", err)
	}
	return strings.TrimPrefix(target, zoneinfo), nil
}

var errNoFiles = errors.New("the room has no files of its own")

// hasHelper reports whether a build comes with a setuid sandbox helper.
func hasHelper(program string) bool {
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(filepath.Dir(program), "chrome-sandbox"), &st)
	return err == nil && st.Uid == 0 && st.Mode&unix.S_ISUID != 0
}
