package eventloop

import (
	"bytes"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// poll is a call of Poll.
type poll struct {
	handle func(p []byte) (handled int, more bool)
	rest   []byte
	err    error
	done   chan struct{}
}

// Poll reads on the thread of the loop, and calls handle there with what was read, until
// handle wants no more, or the connection ends. handle must not block or keep p; it returns
// how much it has handled. Poll returns the rest of the last read. Poll and Read must not
// be called at the same time.
func (c *Conn) Poll(handle func(p []byte) (handled int, more bool)) (rest []byte, err error) {
	c.read.use.Lock()
	defer c.read.use.Unlock()
	if err := c.read.deadline.err(); err != nil {
		return nil, err
	}
	p := &poll{handle: handle, done: make(chan struct{})}
	c.handling.Lock()
	c.poll = p
	err = c.setReading(true)
	c.handling.Unlock()
	if err == nil {
		select {
		case <-p.done:
			return p.rest, p.err
		case <-c.closed:
			err = net.ErrClosed
		case <-c.read.deadline.passed():
			err = os.ErrDeadlineExceeded
		}
	}
	c.handling.Lock() // handle is not running any more
	defer c.handling.Unlock()
	if c.poll == nil { // it has ended in the meantime
		return p.rest, p.err
	}
	c.poll = nil
	_ = c.setReading(false)
	return nil, err
}

// setReading makes the thread wait for data, or not.
func (c *Conn) setReading(on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls = on
	return c.register()
}

// runPoll reads for Poll, if it is called.
func (c *Conn) runPoll(buffer []byte) {
	c.handling.Lock()
	defer c.handling.Unlock()
	p := c.poll
	if p == nil {
		return
	}
	n, err := c.tryRead(buffer)
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	if err == nil {
		handled, more := p.handle(buffer[:n])
		if more {
			return
		}
		p.rest = bytes.Clone(buffer[handled:n])
	}
	p.err = err
	c.poll = nil
	_ = c.setReading(false)
	close(p.done)
}

// SyscallConn returns access to the socket, for Control only.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return control{c}, nil }

// control implements syscall.RawConn.
type control struct{ conn *Conn }

func (r control) Control(f func(fd uintptr)) error {
	_, err := r.conn.try("", func(fd int) (int, error) { f(uintptr(fd)); return 0, nil })
	return err
}

func (control) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (control) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
