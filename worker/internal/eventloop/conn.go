package eventloop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a connection of a Loop. Besides Poll and TryWrite it is a net.Conn.
type Conn struct {
	original      net.Conn // closed at the end
	local, remote net.Addr
	thread        *thread
	read, write   side
	closed        chan struct{}

	open   sync.RWMutex // held for reading while fd is used, so that it is not closed meanwhile
	fd     int
	isOpen bool

	mu         sync.Mutex
	registered uint32 // events that the thread waits for
	polls      bool   // Poll waits for data
	ended      bool

	handling sync.Mutex // held while poll runs
	poll     *poll      // nil: Poll is not called
}

// side is one direction of a connection.
type side struct {
	use      sync.Mutex // held by the caller of Read or Write
	event    uint32
	waits    bool          // a caller waits for the event; guarded by Conn.mu
	ready    chan struct{} // the event has occurred
	deadline deadline
}

func newConn(fd int, original net.Conn, t *thread) *Conn {
	c := &Conn{original: original, local: original.LocalAddr(), remote: original.RemoteAddr(), thread: t, fd: fd, isOpen: true, closed: make(chan struct{})}
	c.read = side{event: unix.EPOLLIN, ready: make(chan struct{}, 1), deadline: newDeadline()}
	c.write = side{event: unix.EPOLLOUT, ready: make(chan struct{}, 1), deadline: newDeadline()}
	t.add(c)
	return c
}

// try makes one system call, which does not block.
func (c *Conn) try(name string, call func(fd int) (int, error)) (int, error) {
	c.open.RLock()
	defer c.open.RUnlock()
	if !c.isOpen {
		return 0, net.ErrClosed
	}
	for {
		n, err := call(c.fd)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, unix.EAGAIN
		default:
			return 0, os.NewSyscallError(name, err)
		}
	}
}

// tryRead reads what has arrived. Errors: unix.EAGAIN if that is nothing, io.EOF.
func (c *Conn) tryRead(p []byte) (int, error) {
	n, err := c.try("read", func(fd int) (int, error) { return rawRead(fd, p) })
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// TryWrite writes as much as is possible without waiting.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if !c.write.use.TryLock() {
		return 0, nil
	}
	defer c.write.use.Unlock()
	n, err := c.try("write", func(fd int) (int, error) { return rawWrite(fd, p) })
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return n, err
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.read.use.Lock()
	defer c.read.use.Unlock()
	for {
		if err := c.read.deadline.err(); err != nil {
			return 0, err
		}
		n, err := c.tryRead(p)
		if !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		if err := c.wait(&c.read); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (done int, err error) {
	c.write.use.Lock()
	defer c.write.use.Unlock()
	for done < len(p) {
		if err := c.write.deadline.err(); err != nil {
			return done, err
		}
		n, err := c.try("write", func(fd int) (int, error) { return rawWrite(fd, p[done:]) })
		done += n
		if errors.Is(err, unix.EAGAIN) {
			err = c.wait(&c.write)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// wait waits for the event of a side.
func (c *Conn) wait(s *side) error {
	c.mu.Lock()
	select {
	case <-s.ready: // of a wait that has ended otherwise
	default:
	}
	s.waits = true
	err := c.register()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-s.ready:
		return nil
	case <-c.closed:
		return net.ErrClosed
	case <-s.deadline.passed():
		c.mu.Lock()
		defer c.mu.Unlock()
		s.waits = false
		_ = c.register()
		return os.ErrDeadlineExceeded
	}
}

// register makes the thread wait for the events that are needed. The caller holds mu.
func (c *Conn) register() error {
	if c.ended {
		return net.ErrClosed
	}
	var events uint32
	if c.read.waits || c.polls {
		events |= c.read.event
	}
	if c.write.waits {
		events |= c.write.event
	}
	operation := unix.EPOLL_CTL_MOD
	switch {
	case events == c.registered:
		return nil
	case events == 0:
		operation = unix.EPOLL_CTL_DEL // or the end of the connection would be reported again and again
	case c.registered == 0:
		operation = unix.EPOLL_CTL_ADD
	}
	c.registered = events
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(c.thread.epoll, operation, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)}))
}

// handle handles events on the thread.
func (c *Conn) handle(events uint32, buffer []byte) {
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 { // reads and writes return the error
		events |= c.read.event | c.write.event
	}
	if events&c.read.event != 0 {
		c.runPoll(buffer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range [...]*side{&c.read, &c.write} {
		if events&s.event != 0 && s.waits {
			s.waits = false
			s.ready <- struct{}{} // empty: wait has emptied it
		}
	}
	_ = c.register()
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error {
	_, err := c.try("shutdown", func(fd int) (int, error) { return 0, unix.Shutdown(fd, unix.SHUT_WR) })
	return err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.read.waits, c.write.waits, c.polls = false, false, false
	_ = c.register()
	c.ended = true
	c.mu.Unlock()
	close(c.closed)
	c.thread.remove(c)
	c.open.Lock()
	c.isOpen = false
	err := unix.Close(c.fd)
	c.open.Unlock()
	_ = c.original.Close() // its socket is closed already
	return os.NewSyscallError("close", err)
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.read.deadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn. TryWrite has no deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.write.deadline.set(t)
	return nil
}
