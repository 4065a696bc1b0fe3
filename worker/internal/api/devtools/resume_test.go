package devtools_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

// TestResume_CutAtAnyByteLosesNothing cuts the connection in the handshake, within
// frames and between frames, in both directions, and checks that each message is sent
// and received once.

// handshake, in a frame or between two, in either direction, each message is

// sent and received once.

func TestResume_CutAtAnyByteLosesNothing(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	messages := []string{"a", strings.Repeat("b", 130), "c", strings.Repeat("d", 70_000), "e"}
	// A handshake has about 350 bytes, all messages with their headers 71 kB.
	positions := []int64{0, 1, 2, 100, 1000, 35_000, 70_000, 70_340, 70_360, 70_380, 70_400, 70_420, 70_500, 70_700}
	for offset := int64(150); offset < 800; offset += 3 {
		positions = append(positions, offset)
	}
	cutter := newCuttingProxy(t, w.address)
	for direction, set := range map[string]func(int64){
		"to the browser": func(offset int64) { cutter.set(offset, -1) },
		"to the client":  func(offset int64) { cutter.set(-1, offset) },
	} {
		for i, offset := range positions {
			set(offset)
			s := w.newResumingClient(t, fmt.Sprintf("/devtools/page/%d", i), cutter.Addr().String())
			s.address += "&client=" + strings.ReplaceAll(direction, " ", "-")
			received := s.exchange(messages, func() { cutter.set(-1, -1) })
			if strings.Join(received, ",") != strings.Join(messages, ",") {
				t.Fatalf("cut after %d bytes %s: received %d messages: %.80v", offset, direction, len(received), received)
			}
			_ = s.conn.Close(ws.NormalClosure, "")
		}
	}
}

// exchange sends the messages and receives as many. It reconnects when the connection
// is cut, after calling reset.

// connection is cut, the first time after reset.

func (s *resumingClient) exchange(messages []string, reset func()) (received []string) {
	s.t.Helper()
	err := s.connect()
	for _, message := range messages {
		s.sent = append(s.sent, message)
		if err == nil {
			err = s.write(message)
		}
	}
	for tries := 0; len(received) < len(messages); {
		if err != nil {
			if tries++; tries > 3 {
				s.t.Fatalf("too many reconnects: %v", err)
			}
			reset()
			if err = s.connect(); err != nil {
				continue
			}
		}
		var message string
		if message, err = s.receive(); err == nil {
			received = append(received, message)
		}
	}
	return received
}

func TestResume_StatusHasBothCounts(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/a")
	if s.status != (resumeStatus{}) {
		t.Errorf("got status %+v", s.status)
	}
	for i := range 3 {
		s.send(fmt.Sprint(i))
		if _, err := s.receive(); err != nil {
			t.Fatal(err)
		}
	}
	s.cut()
	s.received = 1
	s.noError(s.connect())
	if s.status != (resumeStatus{Received: 3, Sent: 3}) {
		t.Errorf("got status %+v", s.status)
	}
	for i := 1; i < 3; i++ {
		if got, err := s.receive(); err != nil || got != fmt.Sprint(i) {
			t.Errorf("received %q, %v, want %d", got, err, i)
		}
	}
}

func TestResume_SecondSocketTakesOver(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	for name, freeze := range map[string]bool{"from an open socket": false, "from a stalled socket": true} {
		t.Run(name, func(t *testing.T) {
			cutter := newCuttingProxy(t, w.address)
			if freeze {
				cutter.freeze(1000) // somewhere after the handshake
			}
			s := w.newResumingClient(t, fmt.Sprintf("/devtools/page/%t", freeze), cutter.Addr().String())
			s.noError(s.connect())
			s.send("first")
			if got, err := s.receive(); err != nil || got != "first" {
				t.Fatalf("received %q, %v", got, err)
			}
			old := s.conn
			s.send(strings.Repeat("x", 5000)) // stays incomplete when frozen
			cutter.set(-1, -1)
			s.noError(s.connect())
			if got, err := s.receive(); err != nil || len(got) != 5000 {
				t.Errorf("received %.20q, %v", got, err)
			}
			if !freeze {
				for err := error(nil); err == nil; {
					if _, _, err = old.Read(t.Context()); err != nil && ws.CloseStatus(err) != resume.TakenOver {
						t.Errorf("the old socket: %v", err)
					}
				}
			}
			if w.browser(t).Activity.Clients() != 1 {
				t.Errorf("got %d counted clients", w.browser(t).Activity.Clients())
			}
			_ = s.conn.Close(ws.NormalClosure, "")
		})
	}
}

func TestResume_ClientNameSeparatesConnections(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	var both []*resumingClient
	for _, name := range []string{"one", "two"} {
		s := w.newResumingClient(t, "/devtools/page/a", "")
		s.address += "&client=" + name
		s.noError(s.connect())
		both = append(both, s)
	}
	for round := range 3 {
		for i, s := range both {
			s.cut()
			s.noError(s.connect())
			message := fmt.Sprintf("%d of %d", round, i)
			s.send(message)
			if got, err := s.receive(); err != nil || got != message {
				t.Errorf("received %q, %v, want %q", got, err, message)
			}
		}
	}
}

func TestResume_ReconnectStopsTimeout(t *testing.T) {
	const timeout = 300 * time.Millisecond
	w, _ := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: timeout, Buffer: 1 << 20})
	s := w.open(t, "/devtools/page/a")
	s.cut()
	testenv.Eventually(t, "the end of the socket is noticed", func() bool { return w.Sockets() == 0 })
	s.noError(s.connect())
	for i, began := 0, time.Now(); time.Since(began) < 3*timeout; i++ {
		s.send(fmt.Sprint(i))
		if got, err := s.receive(); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("received %q, %v after %s", got, err, time.Since(began))
		}
	}
}

func TestResume_AbnormalCloseKeepsConnection(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/a")
	s.send("one")
	if _, err := s.receive(); err != nil {
		t.Fatal(err)
	}
	_ = s.conn.Close(ws.InternalError, "keepalive ping timeout") // as some libraries do
	s.noError(s.connect())
	if s.status != (resumeStatus{1, 1}) {
		t.Errorf("got status %+v", s.status)
	}
}

func TestResume_ZeroStartsNewConnection(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/a")
	s.send("one")
	if _, err := s.receive(); err != nil {
		t.Fatal(err)
	}
	s.cut()
	s.received = 0
	s.noError(s.connect()) // the answer to this connection was lost
	if got, err := s.receive(); err != nil || got != "one" || s.status != (resumeStatus{1, 1}) {
		t.Errorf("received %q, %v, got status %+v", got, err, s.status)
	}
	s.cut()
	s.noError(s.connect()) // the new connection has received it
	another := w.open(t, "/devtools/page/a")
	if another.status != (resumeStatus{}) {
		t.Errorf("got status %+v", another.status)
	}
	if _, err := s.receive(); ws.CloseStatus(err) != resume.TakenOver {
		t.Errorf("the old connection: %v", err)
	}
}

func TestResume_AcknowledgedMessagesAreDiscarded(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/a")
	for i := range 3 {
		s.send(fmt.Sprint(i))
		if _, err := s.receive(); err != nil {
			t.Fatal(err)
		}
	}
	s.noError(s.write(` {"method": "Svc.ack", "params": {"seq": 2}}`))
	s.noError(s.readStatus("Svc.acked"))
	if s.status != (resumeStatus{3, 3}) {
		t.Errorf("got acknowledgment %+v", s.status)
	}
	for _, call := range []string{`{"id":1,"method":"Svc.ack","params":{"seq":3}}`, `{"method":"Svc.ack","params":{"seq":"x"}}`, `{"method":"Svc.acks"}`} {
		s.send(call) // for the browser, which echoes it
		if got, err := s.receive(); err != nil || got != call {
			t.Errorf("received %q, %v", got, err)
		}
	}
	s.cut()
	s.received = 2
	s.noError(s.connect())
	if got, err := s.receive(); err != nil || got != "2" {
		t.Errorf("received %q, %v", got, err)
	}
	s.cut()
	s.received = 1
	if got := s.closeStatus(); got != resume.OverBound {
		t.Errorf("resuming from a discarded message: got close status %d", got)
	}
}

// TestResume_SlowClientAppliesBackpressure: the worker keeps no more than its bound for

// it, and in the end it hears everything.

// drain lets the worker finish what it was writing to a socket.

func TestResume_ManyClientsCutAtOnce(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			s := w.newResumingClient(t, fmt.Sprintf("/devtools/page/%d", i), "")
			if err := s.connect(); err != nil {
				t.Error(err)
				return
			}
			for n := range 200 {
				s.send(fmt.Sprintf("%d of %d", n, i))
				if (n+i)%7 == 0 {
					s.cut()
					if err := s.connect(); err != nil {
						t.Error(err)
						return
					}
				}
				if got, err := s.receive(); err != nil || got != fmt.Sprintf("%d of %d", n, i) {
					t.Errorf("received %q, %v, want %d of %d", got, err, n, i)
					return
				}
			}
		})
	}
	running.Wait()
}
