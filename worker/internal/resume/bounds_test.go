package resume

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

func newBrowser(done <-chan struct{}) Browser {
	return Browser{Socket: &ws.Raw{Conn: deaf{}}, Done: done, Watch: func(net.Conn) func() { return func() {} }}
}

// deaf is a connection that has ended.
type deaf struct{ net.Conn }

func (deaf) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (deaf) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (deaf) Close() error                     { return nil }
func (deaf) SetDeadline(time.Time) error      { return nil }
func (deaf) SetReadDeadline(time.Time) error  { return nil }
func (deaf) SetWriteDeadline(time.Time) error { return nil }

func TestTheClientsOfALaunchShareTheBound(t *testing.T) {
	const bound = 1 << 20
	cs := New(Options{Patience: time.Hour, Buffer: bound})
	conns := make([]*Conn, perLaunch)
	open := func(launch string) *Conn {
		c, isNew, err := cs.Open(Key{launch, "/p", fmt.Sprint(len(cs.conns))}, newBrowser(nil))
		if err != nil || !isNew {
			t.Fatal(isNew, err)
		}
		t.Cleanup(func() { c.end(nil, byeShutdown) })
		return c
	}
	for i := range conns {
		conns[i] = open("busy")
	}
	other := open("other")
	const size = bound / 40
	keep := func(c *Conn) {
		s := &socket{conn: c, raw: &ws.Raw{Conn: silent{}}}
		if g := c.attach(s, c.kept.last()); g != nil {
			t.Fatal(*g)
		}
		for range 60 { // what its client reads, and does not acknowledge
			c.keep(bytes.Repeat([]byte("x"), size))
			c.given(s, c.kept.last())
		}
	}
	for _, c := range conns {
		keep(c)
	}
	keep(other)
	kept := 0
	for _, c := range conns {
		if kept += c.kept.bytes; c.hasEnded() || c.kept.last() != 60 {
			t.Errorf("%d messages passed, ended: %v", c.kept.last(), c.hasEnded())
		}
	}
	if most := bound + perLaunch*(size+overhead); kept > most { // each may have one
		t.Errorf("%d bytes are kept for a launch, want %d at the most", kept, most)
	}
	if other.kept.bytes < bound/2 {
		t.Errorf("%d bytes are kept for another", other.kept.bytes)
	}
}

func TestWhatIsRememberedOfALaunchIsBounded(t *testing.T) {
	cs := New(Options{Patience: time.Hour, Buffer: 1 << 20})
	done := make(chan struct{})
	live := func(client int, status uint16) {
		key := Key{"launch", "/p", fmt.Sprint(client)}
		c, _, err := cs.Open(key, newBrowser(done))
		if err != nil {
			t.Fatal(err)
		}
		c.end(nil, goodbye{status, ""})
		cs.Run(t.Context(), key, c)
	}
	for i := range 3 * mostRemembered {
		live(i, Expired)
	}
	live(3*mostRemembered-1, TakenOver) // once more
	if len(cs.conns) != mostRemembered-1 && len(cs.conns) != mostRemembered {
		t.Errorf("%d connections are remembered", len(cs.conns))
	}
	if c := cs.Find(Key{"launch", "/p", fmt.Sprint(3*mostRemembered - 1)}, 1); c == nil || c.bye.status != TakenOver {
		t.Error("it is not known how the last one ended")
	}
	close(done)
	live(0, wsframe.Normal)
	if len(cs.conns) != 0 || len(cs.launches) != 0 {
		t.Errorf("%d connections of %d launches are remembered after the browser's end", len(cs.conns), len(cs.launches))
	}
}
