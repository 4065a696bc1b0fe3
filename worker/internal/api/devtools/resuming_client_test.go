package devtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// resumingClient is a client that counts received and sent messages and resumes with
// the counts.
type resumingClient struct {
	t        testing.TB
	address  string // URL of the socket, with the token
	conn     *ws.Conn
	status   resumeStatus // of the last socket
	received int64
	sent     []string // all messages sent so far
}

// resumeStatus is the content of Svc.resumed and Svc.acked.
type resumeStatus struct{ Received, Sent int64 }

// newResumingClient returns a client of a socket that has not connected yet. It
// connects through via (host:port) if that is set.
func (w *testServer) newResumingClient(t testing.TB, rest, via string) *resumingClient {
	t.Helper()
	address := w.socket(rest) + "?ct=" + w.token(t, ticket.Control)
	if via != "" {
		address = strings.Replace(address, w.address, via, 1)
	}
	return &resumingClient{t: t, address: address}
}

// open returns a connected client.
func (w *testServer) open(t testing.TB, rest string) *resumingClient {
	t.Helper()
	s := w.newResumingClient(t, rest, "")
	s.noError(s.connect())
	return s
}

func (s *resumingClient) noError(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// dial connects. The worker may still close the connection at once.
func (s *resumingClient) dial() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	conn, err := ws.Dial(ctx, fmt.Sprintf("%s&resume=%d", s.address, s.received), nil, ws.Options{ReadLimit: -1})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	s.conn = conn
	return nil
}

// connect connects or reconnects, and sends again the messages that the browser has
// not received.
func (s *resumingClient) connect() error {
	if err := s.dial(); err != nil {
		return err
	}
	if err := s.readStatus("Svc.resumed"); err != nil {
		return err
	}
	if s.status.Received > int64(len(s.sent)) {
		return fmt.Errorf("the browser received %d messages, but only %d were sent", s.status.Received, len(s.sent))
	}
	for _, message := range s.sent[s.status.Received:] {
		if err := s.write(message); err != nil {
			return err
		}
	}
	return nil
}

// readStatus reads a status message of the worker.
func (s *resumingClient) readStatus(method string) error {
	text, err := s.read()
	if err != nil {
		return err
	}
	var message struct {
		Method string
		Params resumeStatus
	}
	if err := json.Unmarshal([]byte(text), &message); err != nil || message.Method != method {
		return fmt.Errorf("received %.100s, want %s: %w", text, method, err)
	}
	s.status = message.Params
	return nil
}

func (s *resumingClient) read() (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, message, err := s.conn.Read(ctx)
	return string(message), err
}

func (s *resumingClient) write(message string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	return s.conn.Write(ctx, ws.Text, []byte(message))
}

// send sends a message, now or over the next socket.
func (s *resumingClient) send(message string) {
	s.sent = append(s.sent, message)
	_ = s.write(message)
}

// receive waits for the next message of the browser.
func (s *resumingClient) receive() (string, error) {
	message, err := s.read()
	if err == nil {
		s.received++
	}
	return message, err
}

// cut closes the socket without a close frame.
func (s *resumingClient) cut() { s.conn.CloseNow() }

// closeStatus connects and returns the status with which the worker closes the
// connection.
func (s *resumingClient) closeStatus() ws.Status {
	s.t.Helper()
	s.noError(s.dial())
	_, err := s.read()
	return ws.CloseStatus(err)
}

// cuttingProxy is a proxy between a client and the worker that cuts connections.
type cuttingProxy struct {
	net.Listener
	worker string

	mu           sync.Mutex
	toward, back int64 // number of bytes after which the next connection is cut; -1 for never
	hang         bool  // stall instead of cutting
	conns        []net.Conn
}

func newCuttingProxy(t testing.TB, worker string) *cuttingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &cuttingProxy{Listener: listener, worker: worker, toward: -1, back: -1}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.pass(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

// set sets the number of bytes, in each direction, after which the next connection is cut.
func (s *cuttingProxy) set(toward, back int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toward, s.back, s.hang = toward, back, false
}

// freeze stalls the next connection after this many bytes in either direction.
func (s *cuttingProxy) freeze(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toward, s.back, s.hang = offset, offset, true
}

func (s *cuttingProxy) pass(client net.Conn) {
	worker, err := net.Dial("tcp", s.worker)
	if err != nil {
		client.Close()
		return
	}
	s.mu.Lock()
	s.conns = append(s.conns, client, worker)
	toward, back, hang := s.toward, s.back, s.hang
	s.mu.Unlock()
	var both sync.WaitGroup
	var once sync.Once
	move := func(dst, src net.Conn, bytes int64) {
		if bytes < 0 {
			_, _ = io.Copy(dst, src)
		} else {
			_, _ = io.CopyN(dst, src, bytes)
		}
		if !hang {
			once.Do(func() {
				_ = client.(*net.TCPConn).SetLinger(0) // the test's client treats an orderly close within a message as its end
				client.Close()
				worker.Close()
			})
		}
	}
	both.Go(func() { move(worker, client, toward) })
	both.Go(func() { move(client, worker, back) })
	both.Wait()
}
