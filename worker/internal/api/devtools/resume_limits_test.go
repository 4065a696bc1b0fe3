package devtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

func TestResume_BufferIsBounded(t *testing.T) {
	w, f := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: time.Minute, Buffer: 1 << 20})
	flooded := w.open(t, "/devtools/page/flood")
	if _, err := flooded.receive(); err != nil {
		t.Fatal(err)
	}
	flooded.cut()
	testenv.Eventually(t, "the connection ends", func() bool { return w.browser(t).Activity.Clients() == 0 })
	if got := flooded.closeStatus(); got != resume.OverBound {
		t.Errorf("over the limit: got close status %d", got)
	}
	if sent := f.flooded.Load(); sent < 10 {
		t.Errorf("the connection ended after %d messages", sent)
	}
}

func TestResume_StalledClientIsDisconnected(t *testing.T) {
	w, f := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: time.Hour, Buffer: 16 << 20})
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	address := strings.TrimPrefix(w.socket("/devtools/page/flood"), "ws://"+w.address) + "?resume=0&ct=" + w.token(t, ticket.Control)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", address, w.address)
	settled := int64(-1)
	testenv.Eventually(t, "the worker's writes block", func() bool {
		before := settled
		settled = f.flooded.Load()
		time.Sleep(50 * time.Millisecond)
		return before == settled && settled > 0
	})
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the worker has closed the socket", func() bool { return w.Sockets() == 0 })
}

func TestResume_OversizeMessageEndsConnection(t *testing.T) {
	w, _ := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: time.Minute, Buffer: 60 << 10})
	s := w.newResumingClient(t, "/devtools/page/flood", "") // each message exceeds the limit
	s.noError(s.dial())
	_, err := s.read() // the status message, if it arrives before the end
	if err == nil {
		_, err = s.receive()
	}
	if ws.CloseStatus(err) != resume.OverBound {
		t.Errorf("message of the browser: %v", err)
	}
	s = w.open(t, "/devtools/page/a")
	s.send(strings.Repeat("x", 61<<10))
	if _, err := s.receive(); ws.CloseStatus(err) != ws.MessageTooBig {
		t.Errorf("message of the client: %v", err)
	}
}

func TestResume_RefusesAckOfUnsentMessage(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/flood")
	testenv.Eventually(t, "many messages wait", func() bool { return f.flooded.Load() > 200 })
	for _, seq := range []int64{1 << 50, -1} {
		s.noError(s.write(fmt.Sprintf(`{"method":"Svc.ack","params":{"seq":%d}}`, seq)))
	}
	for number, answers := int64(0), 0; number < 400; {
		var message struct {
			Method string
			Number int64
		}
		text, err := s.receive()
		s.noError(err)
		s.noError(json.Unmarshal([]byte(text), &message))
		if message.Method == "Svc.acked" && answers < 2 {
			answers++
		} else if number++; message.Number != number {
			t.Fatalf("received %.40s, want %d", text, number)
		}
	}
}

func TestResume_SlowClientAppliesBackpressure(t *testing.T) {
	w, f := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: time.Minute, Buffer: 16 << 20})
	var running sync.WaitGroup
	defer running.Wait()
	s := w.open(t, "/devtools/page/flood")
	settled := int64(-1)
	testenv.Eventually(t, "the browser stops sending", func() bool {
		before := settled
		time.Sleep(100 * time.Millisecond)
		settled = f.flooded.Load()
		return settled == before
	})
	if bytes := settled * (64 << 10); bytes > 40<<20 { // includes the kernel's buffers
		t.Errorf("the worker read %d MiB without a client", bytes>>20)
	}
	for i := range settled + 1000 {
		if i%200 == 100 {
			old := s.conn
			s.noError(s.connect()) // the buffer did not overflow
			running.Go(func() { drain(old) })
		}
		var message struct{ Number int64 }
		text, err := s.receive()
		if err != nil || json.Unmarshal([]byte(text), &message) != nil || message.Number != i+1 {
			t.Fatalf("received %.40q, %v, want %d", text, err, i+1)
		}
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 40<<20 {
		t.Errorf("%d MiB are in use", memory.HeapAlloc>>20)
	}
}

func drain(conn *ws.Conn) {
	for err := error(nil); err == nil; {
		_, _, err = conn.Read(context.Background())
	}
}

func TestResume_EndsWithBrowserAndWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		end    func(*testServer, *fakeChromium)
		status ws.Status
		lasts  bool // a disconnected client can still receive the rest
	}{
		"the browser's side": {func(_ *testServer, f *fakeChromium) { f.hangUp() }, ws.GoingAway, true},
		"the browser":        {func(_ *testServer, f *fakeChromium) { close(f.done); f.hangUp() }, ws.GoingAway, false},
		"the worker":         {func(w *testServer, _ *fakeChromium) { w.Close() }, ws.GoingAway, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newFakeTestServer(t, "")
			before := runtime.NumGoroutine()
			here, away := w.open(t, "/devtools/page/here"), w.open(t, "/devtools/page/away")
			for _, s := range []*resumingClient{here, away} {
				s.send("one")
				if _, err := s.receive(); err != nil {
					t.Fatal(err)
				}
			}
			away.cut()
			testenv.Eventually(t, "the end of the socket is noticed", func() bool { return w.Sockets() == 1 })
			tc.end(w, f)
			if _, err := here.receive(); ws.CloseStatus(err) != tc.status {
				t.Errorf("the client got error %v", err)
			}
			if tc.lasts {
				away.received = 0
				s := away
				s.noError(s.connect())
				if got, err := s.receive(); err != nil || got != "one" {
					t.Errorf("received %q, %v", got, err)
				}
				if _, err := s.receive(); ws.CloseStatus(err) != tc.status {
					t.Errorf("after the end: %v", err)
				}
				here.conn.CloseNow()
			}
			testenv.Eventually(t, "all goroutines ended", func() bool { return runtime.NumGoroutine() <= before })
			if clients := w.browser(t).Activity.Clients(); clients != 0 {
				t.Errorf("got %d counted clients", clients)
			}
		})
	}
}
