package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/fault"
)

// connectTimeout limits a connection attempt into a sandbox, in seconds.
const connectTimeout = 5

// ErrBusy means that a browser has as many connections as are possible.
var ErrBusy = fault.New(fault.Unavailable, fmt.Sprintf("This browser has reached its limit of %d connections. Close one before opening another.", MaxConnections))

// socketPool holds the unused sockets of a sandbox's network. The worker cannot
// create sockets there, so they are reused.
type socketPool struct {
	mu     sync.Mutex
	free   []*os.File
	closed bool
}

// dial connects to a port on the sandbox's loopback.
func (s *socketPool) dial(port int, closed func()) (net.Conn, error) {
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
		return nil, fmt.Errorf("connect to port %d in the sandbox: %w", port, err)
	}
	return &pooledConn{TCPConn: conn, release: sync.OnceFunc(func() {
		s.release(socket)
		if closed != nil {
			closed()
		}
	})}, nil
}

// release disconnects a socket and returns it to the pool.
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

// pooledConn is a connection into a sandbox.
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

// connect connects a socket. On a loopback this blocks only if the browser does
// not accept connections.
func connect(socket *os.File, port int) (*net.TCPConn, error) {
	fd := int(socket.Fd())
	err := unix.SetNonblock(fd, false)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectTimeout})
	}
	if err == nil {
		err = connectBlocking(fd, port)
	}
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(socket)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn) // the socket is a TCP socket
	return tcp, tcp.SetNoDelay(true)
}

// connectBlocking connects a blocking socket. With a timeout, a signal interrupts the call,
// although the attempt continues: the next call waits for its result.
func connectBlocking(fd, port int) error {
	for deadline := time.Now().Add(connectTimeout * time.Second); ; {
		err := unix.Connect(fd, &unix.SockaddrInet4{Addr: loopback, Port: port})
		if !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return err
		}
	}
}

// disconnect dissolves a socket's connection, so that it can connect again.
func disconnect(fd int) error {
	nobody := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unsafe.Sizeof(nobody)) //nolint:gosec // the kernel's own struct
	if errno != 0 {
		return errno
	}
	return nil
}
