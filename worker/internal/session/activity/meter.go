// Package activity measures how long the clients of a launch have been idle, without
// reading their messages.
package activity

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/clock"
)

// Meter tracks the clients of one launch. It is safe for concurrent use.
type Meter struct {
	clock clock.Clock

	mu      sync.Mutex
	last    time.Time
	used    bool // by a client
	clients map[*client]struct{}
	working int // requests of clients that are being processed
}

// client is one open connection.
type client struct {
	conn         syscall.Conn // a socket; nil if the caller reports activity with Touch
	lastReceived uint64       // bytes that the kernel had received at the last check
}

// New returns a Meter. The launch itself counts as activity.
func New(clock clock.Clock) *Meter {
	return &Meter{clock: clock, last: clock.Now(), clients: map[*client]struct{}{}}
}

// Touch records client activity now.
func (m *Meter) Touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.used = m.clock.Now(), true
}

// Use records that a client uses the browser, without activity.
func (m *Meter) Use() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = true
}

// Used reports whether a client has used the browser. Passive clients (Count) do not.
func (m *Meter) Used() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Begin counts a request of a client as activity until end is called.
func (m *Meter) Begin() (end func()) {
	m.addWork(1)
	return func() { m.addWork(-1) }
}

func (m *Meter) addWork(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.working += n
	m.last, m.used = m.clock.Now(), true
}

// Watch counts conn as a client until stop is called. Received bytes of a TCP
// connection, its beginning and its end are activity. For other connections the
// caller reports activity with Touch.
func (m *Meter) Watch(conn net.Conn) (stop func()) {
	socket, _ := conn.(syscall.Conn)
	leave := m.add(&client{conn: socket, lastReceived: received(socket)})
	m.Touch()
	return func() {
		leave()
		m.Touch()
	}
}

// Count counts a passive client until stop is called. Its beginning and end are not
// activity.
func (m *Meter) Count() (stop func()) { return m.add(&client{}) }

func (m *Meter) add(c *client) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[c] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.clients, c)
	}
}

// Clients returns the number of open connections.
func (m *Meter) Clients() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clients)
}

// Last returns the time of the last activity. It is as precise as the interval
// between calls.
func (m *Meter) Last() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.working > 0 {
		m.last = m.clock.Now()
	}
	for c := range m.clients {
		if now := received(c.conn); now != c.lastReceived {
			c.lastReceived, m.last = now, m.clock.Now()
		}
	}
	return m.last
}

// received returns the bytes that the kernel has received on a connection. A relay
// that lets the kernel copy the bytes does not see them.
func received(conn syscall.Conn) uint64 {
	if conn == nil {
		return 0
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	var bytes uint64
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			bytes = info.Bytes_received
		}
	})
	return bytes
}
