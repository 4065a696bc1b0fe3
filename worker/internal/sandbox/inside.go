package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// failure is an error with the piece that can't be had.
type failure struct {
	piece string
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Main is a room's first process. It returns an exit status only when it does
// not become the program.
func Main() int {
	runtime.LockOSThread() // what follows is a matter of this thread, which becomes the program
	unix.CloseOnExec(control)
	o, given, err := receiveOrder()
	if errors.Is(err, io.EOF) {
		return 1 // the worker has no use for us
	}
	if err != nil {
		say(tell(err))
		return 1
	}
	var a answer
	if o.Try {
		a.NoUsers = denied(tryUserNamespace())
	}
	say(a, given...)
	var word string
	if err := hear(control, &word); err != nil {
		return 1
	}
	say(tell(o.exec()))
	return 127
}

// receiveOrder makes the room's frame, waits for the order and carries it out.
// It returns the descriptors that the worker is to have.
func receiveOrder() (o order, given []int, err error) {
	if err := hear(control, &o.frame); err != nil {
		return o, nil, err
	}
	failed := o.build()
	if err := hear(control, &o); err != nil {
		return o, nil, err
	}
	if failed != nil {
		return o, nil, failed
	}
	given, err = o.prepare()
	return o, given, err
}

// prepare furnishes the room and gives up every right. It returns the
// descriptors that the worker is to have.
func (o *order) prepare() (given []int, err error) {
	defer unix.Umask(unix.Umask(0o022)) // what is made here is for others to read
	if o.Private {
		if given, err = o.furnish(); err != nil {
			return nil, err
		}
	}
	if o.PID && !o.Window { // with its clients, an X server outside shares System V memory
		_ = unix.Unshare(unix.CLONE_NEWIPC)
	}
	if o.Network {
		if err := listen(o.sockets[0], o.Proxy); err != nil {
			return nil, err
		}
		given = append(given, o.sockets...)
	}
	if err := os.Chdir(o.Dir); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	leaveKeys()
	if err := o.dropRights(); err != nil {
		return nil, err
	}
	// A change of user has cleared it. Should the worker have died before, then
	// nobody gives us the word.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return nil, fmt.Errorf("parent-death signal: %w", err)
	}
	return given, nil
}

// leaveKeys leaves the worker's session keyring behind. Where a host denies that,
// it denies the launch the use of keyrings too.
func leaveKeys() {
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // of no name, which nobody else can join
}

// clearKeys empties the keyrings of the launch's user, which outlive what ran as
// that user before.
func clearKeys() {
	rings := []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING}
	if lasting, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, -1, unix.KEY_SPEC_PROCESS_KEYRING, 0, 0); err == nil {
		rings = append(rings, lasting)
	}
	for _, ring := range rings {
		_, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, ring, 0, 0, 0)
	}
}

// dropRights becomes the launch's user, without any right and with none to be
// gained, unless Chromium's setuid helper is to gain some.
func (o *order) dropRights() error {
	if o.UID >= 0 {
		if err := become(o.UID); err != nil {
			return err
		}
		clearKeys()
	} else if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if o.Helper {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges: %w", err)
	}
	return nil
}

// become makes this thread a user's. The others end with the exec, so they need
// not be stopped for it as they are by package syscall.
func become(uid int) error {
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	id := uintptr(uid)
	if _, _, err := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); err != 0 {
		return fmt.Errorf("group: %w", err)
	}
	if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); err != 0 {
		return fmt.Errorf("user: %w", err)
	}
	return nil
}

// dropCapabilities gives up what the user namespace gave.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// tryUserNamespace does what Chromium's sandbox will. The program isn't there:
// that it is missed at all means that the namespaces were granted.
func tryUserNamespace() error {
	const nowhere = "/nonexistent"
	_, err := syscall.ForkExec(nowhere, []string{nowhere}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET,
	}})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func denied(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// exec replaces this process by the program, with descriptors 0 to 4 only.
func (o *order) exec() error {
	if err := unix.CloseRange(control, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("descriptors: %w", err)
	}
	return fmt.Errorf("exec %s: %w", o.Program, syscall.Exec(o.Program, o.Args, o.Env))
}

func tell(err error) answer {
	var a answer
	var at *failure
	if errors.As(err, &at) {
		a.Failed = at.piece
	}
	a.Error = err.Error()
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(number)
		a.Error = strings.TrimSuffix(a.Error, ": "+number.Error())
	}
	return a
}

// hear waits for the worker's next message on a line.
func hear(line int, into any) error {
	raw := make([]byte, 0, maxMessage+part)
	for {
		n, err := unix.Read(line, raw[len(raw):len(raw)+part])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		if raw = raw[:len(raw)+n]; n < part {
			return json.Unmarshal(raw, into)
		}
		if len(raw) > maxMessage {
			return errors.New("the order has no end")
		}
	}
}

// say answers the worker. When that is gone, so are we.
func say(a answer, given ...int) {
	raw, err := json.Marshal(a)
	if err != nil {
		return
	}
	_ = unix.Sendmsg(control, raw, unix.UnixRights(given...), nil, unix.MSG_NOSIGNAL)
}
