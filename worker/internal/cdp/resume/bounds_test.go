package resume

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

func newBrowser(done <-chan struct{}) Browser {
	return Browser{Socket: &ws.Raw{Conn: closedConn{}}, Done: done, Watch: func(net.Conn) func() { return func() {} }}
}

// closedConn is a connection that has ended.
type closedConn struct{ net.Conn }

func (closedConn) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (closedConn) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (closedConn) Close() error                     { return nil }
func (closedConn) SetDeadline(time.Time) error      { return nil }
func (closedConn) SetReadDeadline(time.Time) error  { return nil }
func (closedConn) SetWriteDeadline(time.Time) error { return nil }

func TestConnections_ShareBufferLimit(t *testing.T) {
	const bound = 1 << 20
	cs := New(Options{ResumeTimeout: time.Hour, Buffer: bound})
	conns := make([]*Conn, maxPerLaunch)
	open := func(launch string) *Conn {
		c, isNew, err := cs.Open(Key{launch, "/p", fmt.Sprint(len(cs.conns))}, newBrowser(nil))
		if err != nil || !isNew {
			t.Fatal(isNew, err)
		}
		t.Cleanup(func() { c.close(nil, closeShutdown) })
		return c
	}
	for i := range conns {
		conns[i] = open("busy")
	}
	other := open("other")
	const size = bound / 40
	keep := func(c *Conn) {
		s := &socket{conn: c, raw: &ws.Raw{Conn: nopConn{}}}
		if g := c.attach(s, c.buffer.last()); g != nil {
			t.Fatal(*g)
		}
		for range 60 { // read but not acknowledged by the client
			c.bufferMessage(bytes.Repeat([]byte("x"), size))
			c.markSent(s, c.buffer.last())
		}
	}
	for _, c := range conns {
		keep(c)
	}
	keep(other)
	kept := 0
	for _, c := range conns {
		if kept += c.buffer.bytes; c.hasEnded() || c.buffer.last() != 60 {
			t.Errorf("%d messages passed, ended: %v", c.buffer.last(), c.hasEnded())
		}
	}
	if most := bound + maxPerLaunch*(size+overhead); kept > most { // each connection may have one message
		t.Errorf("%d bytes are buffered for a launch, want at most %d", kept, most)
	}
	if other.buffer.bytes < bound/2 {
		t.Errorf("%d bytes are buffered for another launch", other.buffer.bytes)
	}
}

func TestConnections_RememberBoundedNumber(t *testing.T) {
	cs := New(Options{ResumeTimeout: time.Hour, Buffer: 1 << 20})
	done := make(chan struct{})
	live := func(client int, status uint16) {
		key := Key{"launch", "/p", fmt.Sprint(client)}
		c, _, err := cs.Open(key, newBrowser(done))
		if err != nil {
			t.Fatal(err)
		}
		c.close(nil, closeReason{status, ""})
		cs.Run(t.Context(), key, c)
	}
	for i := range 3 * maxRemembered {
		live(i, Expired)
	}
	live(3*maxRemembered-1, TakenOver) // again
	if len(cs.conns) != maxRemembered-1 && len(cs.conns) != maxRemembered {
		t.Errorf("%d connections are remembered", len(cs.conns))
	}
	if c := cs.Find(Key{"launch", "/p", fmt.Sprint(3*maxRemembered - 1)}, 1); c == nil || c.reason.status != TakenOver {
		t.Error("the end reason of the last connection was forgotten")
	}
	close(done)
	live(0, wsframe.Normal)
	if len(cs.conns) != 0 || len(cs.launches) != 0 {
		t.Errorf("%d connections of %d launches are remembered after the browser's end", len(cs.conns), len(cs.launches))
	}
}
