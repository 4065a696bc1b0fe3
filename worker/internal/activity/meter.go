// Package activity tells how long the clients of a launch have been silent,
// without reading what they say.
package activity

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/clock"
)

// Meter watches the clients of one launch. It is safe for concurrent use.
type Meter struct {
	clock clock.Clock

	mu      sync.Mutex
	last    time.Time
	clients map[*client]struct{}
}

// client is one open connection. Of one that the kernel counts the bytes of,
// seen is what it had received when it was last looked at.
type client struct {
	conn         *net.TCPConn // nil when its activity is told by Touch
	lastReceived uint64
}

// New returns a Meter; the launch itself counts as activity.
func New(clock clock.Clock) *Meter {
	return &Meter{clock: clock, last: clock.Now(), clients: map[*client]struct{}{}}
}

// Touch notes that a client did something now.
func (m *Meter) Touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = m.clock.Now()
}

// Watch counts conn as a client until the returned function is called. What a
// TCP connection receives is activity, as are its beginning and its end; of any
// other, the caller tells by Touch.
func (m *Meter) Watch(conn net.Conn) (stop func()) {
	tcp, _ := conn.(*net.TCPConn)
	leave := m.add(&client{conn: tcp, lastReceived: received(tcp)})
	m.Touch()
	return func() {
		leave()
		m.Touch()
	}
}

// Count counts a client that only looks on, until the returned function is
// called: neither that it comes nor that it goes is activity.
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

// Clients is how many connections are open.
func (m *Meter) Clients() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clients)
}

// Last is when a client did something, as exactly as Last is called often.
func (m *Meter) Last() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.clients {
		if now := received(c.conn); now != c.lastReceived {
			c.lastReceived, m.last = now, m.clock.Now()
		}
	}
	return m.last
}

// received asks the kernel how many bytes a connection has got so far: a relay
// that lets the kernel move them doesn't see them itself.
func received(conn *net.TCPConn) uint64 {
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
