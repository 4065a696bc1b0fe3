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

// faultyProxy is a way to the database that can be cut just when an answer comes back.
type faultyProxy struct {
	cut  atomic.Pointer[string] // the connection on which the server says this dies, once, and the answer with it
	pass atomic.Int64           // how often that is said before
	down atomic.Bool            // afterwards nobody gets through
}

// openThroughProxy opens a pool on the house's database that goes by the wire.
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

// cutAt loses the answer of the next statement whose end has that tag, but for so
// many before it.
func (w *faultyProxy) cutAt(tag string, before int64) {
	w.pass.Store(before)
	w.cut.Store(&tag)
}

func (w *faultyProxy) wasCut(t *testing.T) {
	t.Helper()
	if w.cut.Load() != nil {
		t.Error("no answer was lost")
	}
}
