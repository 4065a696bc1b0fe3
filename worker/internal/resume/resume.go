// Package resume keeps CDP connections that outlive their clients' sockets. The
// browser's end stays open while a client is away, what the browser says is kept
// within a bound, and a client that comes back goes on where it was: every
// message passes once, in order, in both directions.
package resume

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
)

const (
	// maxPerLaunch is how many connections of one launch are kept at a time.
	maxPerLaunch = 16

	// rememberFor is for how long it is known why a connection ended, of the last
	// so many of a launch.
	rememberFor   = 10 * time.Minute
	maxRemembered = 64
)

// Options are what Connections need.
type Options struct {
	ResumeTimeout time.Duration // how long a connection waits for its client; 0 for none at all
	Buffer        int           // what is kept of a browser's messages, for all of its clients, in bytes; no message is bigger
}

// Connections are those of one worker. They are safe for concurrent use.
type Connections struct {
	Options

	mu       sync.Mutex
	conns    map[Key]*Conn // those that have ended lately, too
	launches map[string]*launch
}

// launch is what there is of one launch.
type launch struct {
	open          int
	bufferedBytes atomic.Int64 // bytes, of all connections
	ended         []*endedConn // the oldest first
}

// endedConn is of a connection that has ended.
type endedConn struct {
	key   Key
	conn  *Conn
	timer *time.Timer
}

// New returns no connections yet.
func New(o Options) *Connections {
	return &Connections{Options: o, conns: map[Key]*Conn{}, launches: map[string]*launch{}}
}

// Key tells connections apart.
type Key struct {
	LaunchID string
	Path     string // of the browser's socket
	Client   string // a name of the client's choice
}

// Browser is the browser's side of a connection.
type Browser struct {
	Socket *ws.Raw
	Done   <-chan struct{} // closed when the browser has ended
	// Watch counts a client until stop is called: one with this connection, or
	// with nil one that is away.
	Watch func(conn net.Conn) (stop func())
}

// Find returns the connection that a client which has received so many messages
// means, or what is remembered of it; nil when there is none.
//
// A client that has received nothing is new where others have: what was there
// ends.
func (cs *Connections) Find(key Key, received int64) *Conn {
	cs.mu.Lock()
	c := cs.conns[key]
	cs.mu.Unlock()
	if c != nil && received == 0 && c.closeIfUsed() {
		return nil
	}
	return c
}

// Open makes a connection, which the caller runs, unless another call just did:
// then it returns that one, and the browser's socket is not used. A launch that
// has its share already is refused with a fault.
func (cs *Connections) Open(key Key, b Browser) (c *Conn, isNew bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.conns[key]; c != nil && !c.hasEnded() {
		return c, false, nil
	}
	l := cs.launches[key.LaunchID]
	if l == nil {
		l = &launch{}
		cs.launches[key.LaunchID] = l
	}
	if l.open >= maxPerLaunch {
		return nil, false, fault.New(fault.Unavailable, fmt.Sprintf("This browser has %d connections that can be resumed, as many as it may.", maxPerLaunch))
	}
	c = newConn(b, cs.Options, &l.bufferedBytes)
	cs.conns[key] = c
	l.open++
	return c, true, nil
}

// Run moves a new connection's messages until it has ended, at the latest with
// ctx.
func (cs *Connections) Run(ctx context.Context, key Key, c *Conn) {
	c.run(ctx)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	l := cs.launches[key.LaunchID]
	l.open--
	m := &endedConn{key: key, conn: c}
	m.timer = time.AfterFunc(rememberFor, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.forget(l, m)
	})
	l.ended = append(l.ended, m)
	most := maxRemembered
	select {
	case <-c.browser.Done:
		most = 0 // nobody asks for what was a launch
	default:
	}
	for len(l.ended) > most {
		cs.forget(l, l.ended[0])
	}
}

// forget forgets a connection that has ended, and a launch without any. The
// caller holds the lock.
func (cs *Connections) forget(l *launch, m *endedConn) {
	m.timer.Stop()
	if cs.conns[m.key] == m.conn {
		delete(cs.conns, m.key)
	}
	l.ended = slices.DeleteFunc(l.ended, func(other *endedConn) bool { return other == m })
	if l.open == 0 && len(l.ended) == 0 && cs.launches[m.key.LaunchID] == l {
		delete(cs.launches, m.key.LaunchID)
	}
}

// Refuse tells a client that there is nothing to resume.
func Refuse(client *ws.Raw) {
	defer func() { _ = client.Conn.Close() }()
	writeClose(client.Conn, closeNothing)
	discard(client.Conn)
}
