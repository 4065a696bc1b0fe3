// Package eventloop reads the sockets of relays on its own threads. For a socket of the
// net package, each message costs a switch of goroutines and a read that finds nothing;
// here, one thread waits for many sockets and handles a message as soon as it is readable.
package eventloop

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	maxEvents  = 64       // of one wait
	bufferSize = 64 << 10 // of a read

	processorsPerThread = 4
)

// Loop is a group of threads that wait for sockets. Nil adopts no connection.
type Loop struct {
	threads []*thread
	next    atomic.Uint32
	end     sync.Once
	running sync.WaitGroup
}

// New starts a Loop. The caller must call Close.
func New() (*Loop, error) {
	l := &Loop{}
	for range max(1, runtime.NumCPU()/processorsPerThread) {
		t, err := newThread()
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("event loop: %w", err)
		}
		l.threads = append(l.threads, t)
		l.running.Go(t.run)
	}
	return l, nil
}

// Close ends the threads. The connections must have been closed. It may be called again.
func (l *Loop) Close() {
	if l == nil {
		return
	}
	l.end.Do(func() {
		for _, t := range l.threads {
			t.stop()
		}
	})
	l.running.Wait()
}

// Adopt takes two TCP connections over and returns connections with the same sockets that
// the loop waits for. If one of them is not TCP, it returns both unchanged.
func (l *Loop) Adopt(client, server net.Conn) (adoptedClient, adoptedServer net.Conn) {
	one, other := tcpOf(client), tcpOf(server)
	if l == nil || one == nil || other == nil {
		return client, server
	}
	t := l.threads[int(l.next.Add(1))%len(l.threads)]
	first, err := duplicate(one)
	if err != nil {
		return client, server
	}
	second, err := duplicate(other)
	if err != nil {
		_ = unix.Close(first)
		return client, server
	}
	adoptedClient, adoptedServer = newConn(first, client, t), newConn(second, server, t)
	_, _ = one.Close(), other.Close() // otherwise the poller of the Go runtime would also wake up for each message
	return adoptedClient, adoptedServer
}

// tcpOf returns the TCP connection of a connection, or nil.
func tcpOf(conn net.Conn) *net.TCPConn {
	if wrapped, ok := conn.(interface{ Unwrap() *net.TCPConn }); ok {
		return wrapped.Unwrap()
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

func duplicate(tcp *net.TCPConn) (fd int, err error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, failed)
}

// thread waits for events of its connections.
type thread struct {
	epoll, wake int // wake is an eventfd, which ends run

	mu    sync.Mutex
	conns map[int32]*Conn // by descriptor
}

func newThread() (*thread, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}); err != nil {
		_, _ = unix.Close(epoll), unix.Close(wake)
		return nil, err
	}
	return &thread{epoll: epoll, wake: wake, conns: map[int32]*Conn{}}, nil
}

// stop makes run return.
func (t *thread) stop() { _, _ = unix.Write(t.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (t *thread) run() {
	defer func() { _, _ = unix.Close(t.epoll), unix.Close(t.wake) }()
	events, buffer := make([]unix.EpollEvent, maxEvents), make([]byte, bufferSize)
	for {
		n, err := t.wait(events)
		if err != nil && !errors.Is(err, unix.EINTR) {
			panic(fmt.Sprintf("event loop: %v", err)) // the descriptor is this thread's own
		}
		for _, event := range events[:max(n, 0)] {
			if event.Fd == int32(t.wake) {
				return
			}
			if c := t.conn(event.Fd); c != nil {
				c.handle(event.Events, buffer)
			}
		}
	}
}

// wait waits for events. Only if none has occurred, it informs the scheduler of Go that it blocks.
func (t *thread) wait(events []unix.EpollEvent) (int, error) {
	if n, err := rawEpollWait(t.epoll, events); n > 0 || err != nil {
		return n, err
	}
	return unix.EpollWait(t.epoll, events, -1)
}

func (t *thread) conn(fd int32) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns[fd]
}

func (t *thread) add(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[int32(c.fd)] = c
}

func (t *thread) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, int32(c.fd))
}
