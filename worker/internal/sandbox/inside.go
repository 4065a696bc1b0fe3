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

// pieceError is an error with the piece that can't be had.
type pieceError struct {
	piece string
	err   error
}

func (f *pieceError) Error() string { return f.err.Error() }
func (f *pieceError) Unwrap() error { return f.err }

// Main is a room's first process. It returns an exit status only when it does
// not become the program.
func Main() int {
	runtime.LockOSThread() // what follows is a matter of this thread, which becomes the program
	unix.CloseOnExec(controlFD)
	o, given, err := receiveRequest()
	if errors.Is(err, io.EOF) {
		return 1 // the worker has no use for us
	}
	if err != nil {
		sendResponse(errorResponse(err))
		return 1
	}
	var a response
	if o.Canary {
		a.UserNamespaceError = errorText(tryUserNamespace())
	}
	sendResponse(a, given...)
	var word string
	if err := readMessage(controlFD, &word); err != nil {
		return 1
	}
	sendResponse(errorResponse(o.exec()))
	return 127
}

// receiveRequest makes the room's frame, waits for the order and carries it out.
// It returns the descriptors that the worker is to have.
func receiveRequest() (o setupRequest, given []int, err error) {
	if err := readMessage(controlFD, &o.baseConfig); err != nil {
		return o, nil, err
	}
	failed := o.setupBase()
	if err := readMessage(controlFD, &o); err != nil {
		return o, nil, err
	}
	if failed != nil {
		return o, nil, failed
	}
	given, err = o.setup()
	return o, given, err
}

// setup furnishes the room and gives up every right. It returns the
// descriptors that the worker is to have.
func (o *setupRequest) setup() (given []int, err error) {
	defer unix.Umask(unix.Umask(0o022)) // what is made here is for others to read
	if o.Private {
		if given, err = o.setupMounts(); err != nil {
			return nil, err
		}
	}
	if o.PID && !o.Window { // with its clients, an X server outside shares System V memory
		_ = unix.Unshare(unix.CLONE_NEWIPC)
	}
	if o.Network {
		if err := listenForProxy(o.sockets[0], o.Proxy); err != nil {
			return nil, err
		}
		given = append(given, o.sockets...)
	}
	if err := os.Chdir(o.Dir); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	leaveSessionKeyring()
	if err := o.dropPrivileges(); err != nil {
		return nil, err
	}
	// A change of user has cleared it. Should the worker have died before, then
	// nobody gives us the word.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return nil, fmt.Errorf("parent-death signal: %w", err)
	}
	return given, nil
}

// leaveSessionKeyring leaves the worker's session keyring behind. Where a host denies that,
// it denies the launch the use of keyrings too.
func leaveSessionKeyring() {
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // manager no name, which nobody else can join
}

// clearKeyrings empties the keyrings of the launch's user, which outlive what ran as
// that user before.
func clearKeyrings() {
	rings := []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING}
	if lasting, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, -1, unix.KEY_SPEC_PROCESS_KEYRING, 0, 0); err == nil {
		rings = append(rings, lasting)
	}
	for _, ring := range rings {
		_, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, ring, 0, 0, 0)
	}
}

// dropPrivileges becomes the launch's user, without any right and with none to be
// gained, unless Chromium's setuid helper is to gain some.
func (o *setupRequest) dropPrivileges() error {
	if o.UID >= 0 {
		if err := setUser(o.UID); err != nil {
			return err
		}
		clearKeyrings()
	} else if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if o.SetuidHelper {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges: %w", err)
	}
	return nil
}

// setUser makes this thread a user's. The others end with the exec, so they need
// not be stopped for it as they are by package syscall.
func setUser(uid int) error {
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// exec replaces this process by the program, with descriptors 0 to 4 only.
func (o *setupRequest) exec() error {
	if err := unix.CloseRange(controlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("descriptors: %w", err)
	}
	return fmt.Errorf("exec %s: %w", o.Program, syscall.Exec(o.Program, o.Args, o.Env))
}

func errorResponse(err error) response {
	var a response
	var at *pieceError
	if errors.As(err, &at) {
		a.FailedPiece = at.piece
	}
	a.Error = err.Error()
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(number)
		a.Error = strings.TrimSuffix(a.Error, ": "+number.Error())
	}
	return a
}

// readMessage waits for the worker's next message on a line.
func readMessage(line int, into any) error {
	raw := make([]byte, 0, maxMessage+chunkSize)
	for {
		n, err := unix.Read(line, raw[len(raw):len(raw)+chunkSize])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		if raw = raw[:len(raw)+n]; n < chunkSize {
			return json.Unmarshal(raw, into)
		}
		if len(raw) > maxMessage {
			return errors.New("the order has no end")
		}
	}
}

// sendResponse answers the worker. When that is gone, so are we.
func sendResponse(a response, given ...int) {
	raw, err := json.Marshal(a)
	if err != nil {
		return
	}
	_ = unix.Sendmsg(controlFD, raw, unix.UnixRights(given...), nil, unix.MSG_NOSIGNAL)
}
