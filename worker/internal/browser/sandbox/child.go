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

// pieceError is an error that names the isolation piece that is unavailable.
type pieceError struct {
	piece string
	err   error
}

func (f *pieceError) Error() string { return f.err.Error() }
func (f *pieceError) Unwrap() error { return f.err }

// Main runs the first process of a sandbox. It returns an exit status only if it
// does not exec the program.
func Main() int {
	runtime.LockOSThread() // this thread execs the program
	unix.CloseOnExec(controlFD)
	o, descriptors, err := receiveRequest()
	if errors.Is(err, io.EOF) {
		return 1 // the worker closed the connection
	}
	if err != nil {
		sendResponse(errorResponse(err))
		return 1
	}
	if o.Canary {
		o.deny(ChromiumSandbox, "browsers cannot create user namespaces", tryUserNamespace())
	}
	sendResponse(response{Denied: o.denied}, descriptors...)
	var word string
	if err := readMessage(controlFD, &word); err != nil {
		return 1
	}
	sendResponse(errorResponse(o.exec()))
	return 127
}

// receiveRequest sets up the base, waits for the setup request and applies it.
// It returns the descriptors to send to the worker.
func receiveRequest() (o setupRequest, descriptors []int, err error) {
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
	descriptors, err = o.setup()
	return o, descriptors, err
}

// setup prepares the sandbox for the launch and drops all privileges. It returns
// the descriptors to send to the worker.
func (r *setupRequest) setup() (descriptors []int, err error) {
	defer unix.Umask(unix.Umask(0o022)) // other users must be able to read these files
	if r.Namespaces {
		if descriptors, err = r.setupMounts(); err != nil {
			return nil, err
		}
	}
	if r.Namespaces && !r.Window { // the X server outside shares System V memory with its clients
		_ = unix.Unshare(unix.CLONE_NEWIPC)
	}
	if r.connects() {
		if err := listenForProxy(r.sockets[0], r.Proxy); err != nil {
			return nil, err
		}
		descriptors = append(descriptors, r.sockets...)
	}
	if err := os.Chdir(r.Dir); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	leaveSessionKeyring()
	if err := r.dropPrivileges(); err != nil {
		return nil, err
	}
	if len(r.Writable) > 0 {
		if err := r.restrictFiles(); err != nil {
			return nil, err
		}
	}
	// The change of user has cleared the parent-death signal. If the worker died
	// before this call, the read of the exec command fails.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return nil, fmt.Errorf("parent-death signal: %w", err)
	}
	return descriptors, nil
}

// leaveSessionKeyring replaces the worker's session keyring by a new one. Where
// the host denies this, it denies launches the use of keyrings too.
func leaveSessionKeyring() {
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // anonymous: no other process can join it
}

// clearKeyrings empties the user's keyrings, which outlive earlier processes of
// that user.
func clearKeyrings() {
	rings := []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING}
	if lasting, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, -1, unix.KEY_SPEC_PROCESS_KEYRING, 0, 0); err == nil {
		rings = append(rings, lasting)
	}
	for _, ring := range rings {
		_, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, ring, 0, 0, 0)
	}
}

// dropPrivileges switches to the launch's user, drops all capabilities and sets
// no_new_privs.
func (r *setupRequest) dropPrivileges() error {
	if r.UID >= 0 {
		if err := setUser(r.UID); err != nil {
			return err
		}
		clearKeyrings()
	} else if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges: %w", err)
	}
	return nil
}

// setUser changes the user of this thread only. Package syscall would stop all
// threads for this, but the others end with the exec.
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

// dropCapabilities drops the capabilities gained in the user namespace.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// tryUserNamespace creates the namespaces that Chromium's sandbox needs. The
// program does not exist: ENOENT means that the namespaces were created.
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

// exec replaces this process by the program, with descriptors 0 to 4 only.
func (r *setupRequest) exec() error {
	if err := unix.CloseRange(controlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("descriptors: %w", err)
	}
	r.Limits.Apply(0)
	return fmt.Errorf("exec %s: %w", r.Program, syscall.Exec(r.Program, r.Args, r.Env))
}

func errorResponse(err error) response {
	var a response
	var failure *pieceError
	if errors.As(err, &failure) {
		a.FailedPiece = failure.piece
	}
	a.Error = err.Error()
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(number)
		a.Error = strings.TrimSuffix(a.Error, ": "+number.Error())
	}
	return a
}

// readMessage reads the worker's next message.
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
			return errors.New("the request is too long")
		}
	}
}

// sendResponse sends a response to the worker. If the worker has ended, this
// process is killed.
func sendResponse(a response, descriptors ...int) {
	raw, err := json.Marshal(a)
	if err != nil {
		return
	}
	_ = unix.Sendmsg(controlFD, raw, unix.UnixRights(descriptors...), nil, unix.MSG_NOSIGNAL)
}
