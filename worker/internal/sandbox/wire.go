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

// Command is the argument that makes the worker's program run Main.
const Command = "isolated"

// childEnv is in the environment of a room's first process, which must not
// try to make rooms.
const childEnv = "SVC_SANDBOX"

// controlFD is the descriptor on which a room's first process has its socket.
const controlFD = 5

// maxMessage bounds an order, in bytes: 50 switches of 1,024 characters, each of
// up to six bytes as JSON writes it, and some more. The line carries it in parts,
// which fit into a socket's buffer; the last is shorter than the others.
const (
	maxMessage = 512 << 10
	chunkSize  = 64 << 10
)

// setupRequest is what the worker asks of a room's first process, which has been told
// of its frame before.
type setupRequest struct {
	baseConfig `json:"-"`

	UID          int // -1: the worker's own
	Program      string
	Args         []string
	Env          []string
	Dir          string
	Timezone     string      // "" is the host's
	Binds        []bindMount // manager the host's files
	Window       bool        // shares memory with an X server outside
	Proxy        int         // the port where the browser looks for one
	SetuidHelper bool        // Chromium's setuid helper is to work
	Canary       bool        // a canary: try user namespaces too
}

// descriptorCount is how many descriptors come with the answer to an order.
func (p *pieces) descriptorCount() (n int) {
	if p.Private {
		n += 2
	}
	if p.Network {
		n += 1 + maxConnections
	}
	return n
}

// bindMount is a file or directory of the host, and where it is inside.
type bindMount struct{ From, To string }

// response is what it says: that the room is ready, or what failed.
type response struct {
	FailedPiece        string // the piece, or "" when it is not known
	Error              string // "" when all is well
	Errno              int    // manager it, where the kernel gave one
	UserNamespaceError string // a canary: why user namespaces are denied
}

func (a response) err() error {
	if a.Errno == 0 {
		return errors.New(a.Error)
	}
	return fmt.Errorf("%s: %w", a.Error, syscall.Errno(a.Errno))
}

// socketPair makes the two ends of the line; the second is for the room.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "room"), os.NewFile(uintptr(fds[1]), "worker")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// send and receive are the worker's side.
func send(ctx context.Context, conn *net.UnixConn, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(raw) > maxMessage {
		return fmt.Errorf("%d bytes of settings are too many", len(raw))
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

// receive returns what a room says, and the descriptors that came with it. At
// the line's end it returns io.EOF.
func receive(ctx context.Context, conn *net.UnixConn) (a response, files []*os.File, err error) {
	defer interruptOn(ctx, conn)()
	raw, rights := make([]byte, 16<<10), make([]byte, unix.CmsgSpace(4*(2+1+maxConnections)))
	n, oob, _, _, err := conn.ReadMsgUnix(raw, rights)
	switch {
	case err != nil && ctx.Err() != nil:
		return a, nil, ctx.Err()
	case errors.Is(err, unix.ECONNRESET): // it went with our message unread
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
			files = append(files, os.NewFile(uintptr(fd), "of a room"))
		}
	}
	return a, files, json.Unmarshal(raw[:n], &a)
}

// interruptOn has conn's reads and writes end with ctx.
func interruptOn(ctx context.Context, conn *net.UnixConn) (stop func()) {
	_ = conn.SetDeadline(time.Time{})
	ended := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { ended() }
}
