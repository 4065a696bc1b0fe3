package sandbox

import (
	"fmt"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/fault"
)

// connectTimeout bounds how long a connection into a room may take to be made,
// in seconds.
const connectTimeout = 5

// ErrBusy means that there are as many connections into a room as there can be.
var ErrBusy = fault.New(fault.Unavailable, "The browser has as many connections as it can have.")

// socketPool are of a room's network, and nothing is connected to them now. The
// worker can't make any there, so each is used again.
type socketPool struct {
	mu     sync.Mutex
	free   []*os.File
	closed bool
}

// dial connects to a port of the room's loopback.
func (s *socketPool) dial(port int) (net.Conn, error) {
	s.mu.Lock()
	last := len(s.free) - 1
	if s.closed || last < 0 {
		s.mu.Unlock()
		return nil, ErrBusy
	}
	socket := s.free[last]
	s.free = s.free[:last]
	s.mu.Unlock()

	conn, err := connect(socket, port)
	if err != nil {
		s.release(socket)
		return nil, fmt.Errorf("connect to port %d of a room: %w", port, err)
	}
	return &pooledConn{TCPConn: conn, release: sync.OnceFunc(func() { s.release(socket) })}, nil
}

// release takes a socket, and breaks off what is left of its connection.
func (s *socketPool) release(socket *os.File) {
	err := disconnect(int(socket.Fd()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || err != nil {
		socket.Close()
		return
	}
	s.free = append(s.free, socket)
}

func (s *socketPool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, socket := range s.free {
		socket.Close()
	}
	s.free = nil
}

// pooledConn is a connection into a room. It embeds what io.Copy has the kernel
// move bytes between.
type pooledConn struct {
	*net.TCPConn
	release func()
}

// Close implements net.Conn.
func (c *pooledConn) Close() error {
	err := c.TCPConn.Close()
	c.release()
	return err
}

// connect connects a socket. That takes no time on a loopback, unless the
// browser leaves its callers waiting.
func connect(socket *os.File, port int) (*net.TCPConn, error) {
	fd := int(socket.Fd())
	err := unix.SetNonblock(fd, false)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectTimeout})
	}
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: loopback, Port: port})
	}
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(socket)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn) // a socket of that kind
	return tcp, tcp.SetNoDelay(true)
}

// disconnect makes a socket one that was never connected.
func disconnect(fd int) error {
	nobody := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unsafe.Sizeof(nobody)) //nolint:gosec // the kernel's own struct
	if errno != 0 {
		return errno
	}
	return nil
}
