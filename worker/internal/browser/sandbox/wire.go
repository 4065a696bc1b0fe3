package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the argument with which the worker's program calls Main.
const Command = "isolated"

// childEnv is set in the environment of a sandbox's first process, which must
// not create sandboxes.
const childEnv = "SVC_SANDBOX"

// controlFD is the descriptor of the first process's socket to the worker.
const controlFD = 5

// maxMessage limits a request, in bytes: 50 switches of 1,024 characters, each of
// up to six bytes as JSON writes it, and other settings. The socket carries it in
// chunks that fit into its buffer; the last is shorter than the others.
const (
	maxMessage = 512 << 10
	chunkSize  = 64 << 10
)

// setupRequest is the worker's request to a sandbox's first process. The base
// config was sent before.
type setupRequest struct {
	baseConfig `json:"-"`

	UID      int // -1 is the worker's own
	Program  string
	Args     []string
	Env      []string
	Dir      string
	Timezone string   // "" is the host's
	Binds    []Mount  // host files
	Policy   []byte   // as in Config
	Writable []string // the launch's directories and files, if files are not private
	Readable []string // further host files, if files are not private
	Window   bool     // shares memory with the X server
	Proxy    int      // port where the browser expects its proxy
	Limits   Limits
}

// privateDescriptors is the number of descriptors of directories: / and data.
const privateDescriptors = 2

// descriptorCount returns how many descriptors come with the response to a setup
// request.
func (p *isolationParts) descriptorCount() (n int) {
	if p.Namespaces {
		n += privateDescriptors
	}
	if p.connects() {
		n += 1 + socketCount
	}
	return n
}

// response says that the sandbox is ready, or what failed.
type response struct {
	FailedPiece string            // piece, or "" if unknown
	Error       string            // "" on success
	Errno       int               // errno of Error, if any
	Denied      map[string]string // of a canary: the errors of the pieces that it goes without, by name
}

func (a response) err() error {
	if a.Errno == 0 {
		return errors.New(a.Error)
	}
	return fmt.Errorf("%s: %w", a.Error, syscall.Errno(a.Errno))
}

// socketPair creates the connection to a sandbox; the second end is for the
// child process.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "worker")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// send sends a message to the sandbox's process.
func send(ctx context.Context, conn *net.UnixConn, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(raw) > maxMessage {
		return fmt.Errorf("the request has %d bytes, more than the limit", len(raw))
	}
	if len(raw)%chunkSize == 0 {
		raw = append(raw, ' ')
	}
	defer interruptOn(ctx, conn)()
	for piece := range slices.Chunk(raw, chunkSize) {
		if _, err := conn.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// receive returns a response with its descriptors, or io.EOF if the process has
// ended.
func receive(ctx context.Context, conn *net.UnixConn) (a response, files []*os.File, err error) {
	defer interruptOn(ctx, conn)()
	raw, rights := make([]byte, 16<<10), make([]byte, unix.CmsgSpace(4*(privateDescriptors+1+socketCount)))
	n, oob, _, _, err := conn.ReadMsgUnix(raw, rights)
	switch {
	case err != nil && ctx.Err() != nil:
		return a, nil, ctx.Err()
	case errors.Is(err, unix.ECONNRESET): // the process ended before it read the message
		return a, nil, io.EOF
	case err != nil:
		return a, nil, err
	case n == 0:
		return a, nil, io.EOF
	}
	messages, _ := unix.ParseSocketControlMessage(rights[:oob])
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "sandbox"))
		}
	}
	return a, files, json.Unmarshal(raw[:n], &a)
}

// interruptOn ends conn's reads and writes when ctx ends.
func interruptOn(ctx context.Context, conn *net.UnixConn) (stop func()) {
	_ = conn.SetDeadline(time.Time{})
	ended := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { ended() }
}
