package license_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// faultyProxy is a proxy to the database that can break a connection when an answer
// arrives.
type faultyProxy struct {
	cut  atomic.Pointer[string] // break the connection, once, on which the server sends this text
	pass atomic.Int64           // number of occurrences to pass before
	down atomic.Bool            // refuse connections afterwards
}

// openThroughProxy opens a pool on the fixture's database through the proxy.
func (h *fixture) openThroughProxy(w *faultyProxy) *sqlx.DB {
	h.t.Helper()
	address, err := url.Parse(h.dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	network, behind := "tcp", address.Host
	if sockets := address.Query().Get("host"); sockets != "" {
		network, behind = "unix", filepath.Join(sockets, ".s.PGSQL.5432")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, behind)
			if err != nil {
				client.Close()
				return
			}
			if w.down.Load() && w.cut.Load() == nil {
				client.Close()
				server.Close()
				continue
			}
			go w.relay(client, server)
		}
	}()
	through := url.URL{Scheme: "postgres", User: address.User, Host: listener.Addr().String(), Path: address.Path, RawQuery: "sslmode=disable"}
	return dbtest.Open(h.t, through.String(), pg.Options{})
}

func (w *faultyProxy) relay(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, client)
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if cut := w.cut.Load(); cut != nil && bytes.Contains(buffer[:n], []byte(*cut)) && w.pass.Add(-1) < 0 && w.cut.CompareAndSwap(cut, nil) {
			return
		}
		if _, werr := client.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// cutAt drops the answer of the next statement with that command tag, after passing
// that many.
func (w *faultyProxy) cutAt(tag string, before int64) {
	w.pass.Store(before)
	w.cut.Store(&tag)
}

func (w *faultyProxy) wasCut(t *testing.T) {
	t.Helper()
	if w.cut.Load() != nil {
		t.Error("no answer was dropped")
	}
}
