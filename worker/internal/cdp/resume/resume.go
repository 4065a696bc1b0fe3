// Package resume keeps CDP connections open while their clients reconnect. While a
// client is disconnected, the browser's socket stays open and its messages are
// buffered up to a limit. A client that reconnects continues where it was: every
// message is delivered once, in order, in both directions.
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
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

const (
	// maxPerLaunch is how many connections of one launch are kept at a time.
	maxPerLaunch = 16

	// rememberFor is how long the end reasons of a launch's most recently ended
	// connections are remembered.
	rememberFor   = 10 * time.Minute
	maxRemembered = 64
)

// Options configure Connections.
type Options struct {
	ResumeTimeout time.Duration // how long a connection waits for its client
	Buffer        int           // limit of a browser's buffered messages, shared by its clients, in bytes; also the limit of one message
}

// Connections are the resumable connections of one worker. They are safe for
// concurrent use.
type Connections struct {
	Options

	mu    sync.Mutex
	conns map[Key]*Conn // includes recently ended ones
	// launch is the state of one launch.
	launches map[string]*launch

	results results
}

// launch is the state of one launch.
type launch struct {
	open          int
	bufferedBytes atomic.Int64 // buffered bytes of all connections
	ended         []*endedConn // oldest first
}

// endedConn is a connection that has ended.
type endedConn struct {
	key   Key
	conn  *Conn
	timer *time.Timer
}

// New returns an empty set of connections.
func New(o Options) *Connections {
	return &Connections{Options: o, conns: map[Key]*Conn{}, launches: map[string]*launch{}}
}

// Key identifies a connection.
type Key struct {
	LaunchID string
	Path     string // of the browser's socket
	Client   string // a name chosen by the client
}

// Browser is the browser's side of a connection.
type Browser struct {
	Socket *ws.Raw
	Done   <-chan struct{} // closed when the browser has ended
	// BeforeEnd is called before the client gets the browser's answer to Browser.close, if
	// it has accepted that, or sees the end of the browser's side. It may block until ctx
	// ends.
	BeforeEnd func(ctx context.Context, closeAccepted bool)
	// Watch counts a client until stop is called: a client with this connection, or a
	// disconnected client if conn is nil.
	Watch func(conn net.Conn) (stop func())
	Calls *intercept.Calls // handles some calls of the client; nil: none

	Client *tap.Client // for an observer of the client's commands; nil: they are not observed
}

// Find returns the connection to resume for a client that has received this many
// messages, which may have ended; nil if there is none.
//
// A client that has received nothing starts a new connection if the previous one
// was used: Find then closes that.
func (cs *Connections) Find(key Key, received int64) *Conn {
	cs.mu.Lock()
	c := cs.conns[key]
	cs.mu.Unlock()
	if c != nil && received == 0 && c.closeIfUsed() {
		return nil
	}
	return c
}

// Open creates a connection, which the caller must run. If a concurrent call has
// created it, Open returns that one and does not use the browser's socket. It
// refuses a launch that has reached its limit of connections.
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
		return nil, false, fault.New(fault.Unavailable, fmt.Sprintf("This browser has reached its limit of %d resumable connections.", maxPerLaunch))
	}
	c = newConn(b, cs.Options, &l.bufferedBytes)
	c.results = &cs.results
	cs.conns[key] = c
	l.open++
	return c, true, nil
}

// Run moves a new connection's messages until the connection or ctx ends.
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
		most = 0 // the launch has ended: clients do not resume
	default:
	}
	for len(l.ended) > most {
		cs.forget(l, l.ended[0])
	}
}

// forget removes an ended connection, and its launch if that has no others. The
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

// Refuse closes a client's socket because there is nothing to resume.
func (cs *Connections) Refuse(client *ws.Raw) {
	cs.results.count(closeNothing.status)
	defer func() { _ = client.Conn.Close() }()
	writeClose(client.Conn, closeNothing)
	discard(client.Conn)
}
