package license_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// wire is a way to the database that can be cut just when an answer comes back.
type wire struct {
	cut atomic.Pointer[[]byte] // the connection on which the server says this dies, once, and the answer with it
}

// openThrough opens a pool on the house's database that goes by the wire.
func (h *house) openThrough(w *wire) *sqlx.DB {
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
			go w.relay(client, server)
		}
	}()
	through := url.URL{Scheme: "postgres", User: address.User, Host: listener.Addr().String(), Path: address.Path, RawQuery: "sslmode=disable"}
	return dbtest.Open(h.t, through.String(), pg.Options{})
}

func (w *wire) relay(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, client)
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if cut := w.cut.Load(); cut != nil && bytes.Contains(buffer[:n], *cut) && w.cut.CompareAndSwap(cut, nil) {
			return
		}
		if _, werr := client.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (w *wire) cutAt(tag string) {
	text := append([]byte(tag), 0)
	w.cut.Store(&text)
}

func TestAGrantWhoseAnswerIsLostOnTheWayIsFoundAgain(t *testing.T) {
	h := open(t, 10)
	var w wire
	s := h.replica(h.openThrough(&w))
	w.cutAt("SELECT 1")
	if v := <-h.ask(t.Context(), s, nil); v.err != nil || !v.grant.Allowed {
		t.Errorf("alone: %+v, %v", v.grant, v.err)
	}
	if w.cut.Load() != nil {
		t.Error("no answer was lost")
	}
	release := h.lockCounter()
	answers := []chan verdict{h.ask(t.Context(), s, nil)}
	h.awaitBlocked(1)
	for i := range 4 {
		answers = append(answers, h.ask(t.Context(), s, nil))
		eventually(t, func() bool { return s.WaitingForGrants(h.org) == i+1 })
	}
	w.cutAt("SELECT 4") // of the batch
	release()
	slots := map[uuid.UUID]bool{}
	for _, answer := range answers {
		v := <-answer
		if v.err != nil || !v.grant.Allowed {
			t.Errorf("in a batch: %+v, %v", v.grant, v.err)
		}
		slots[v.grant.SlotID] = true
	}
	if w.cut.Load() != nil {
		t.Error("no answer of a batch was lost")
	}
	if len(slots) != 5 || h.inUse() != 6 {
		t.Errorf("%d slots, %d counted", len(slots), h.inUse())
	}
}

func TestAnEndWhoseCommitIsLostOnTheWayIsFoundAgain(t *testing.T) {
	h := open(t, 10)
	var w wire
	s := h.replica(h.openThrough(&w))
	session, other := h.start(), h.start()
	w.cutAt("COMMIT")
	report := h.ending(session)
	report.EndReason = license.Idle
	got, err := s.End(t.Context(), report)
	if err != nil || *got.EndReason != license.Idle || w.cut.Load() != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if h.inUse() != 1 || h.state(other) != "running" || h.heard(session).Ends != 1 {
		t.Errorf("%d counted, %d ends heard", h.inUse(), h.heard(session).Ends)
	}
}
