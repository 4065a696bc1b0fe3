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
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// steady is a client that counts what it hears and says, and resumes with that.
type steady struct {
	t       testing.TB
	address string // of the socket, with the token
	conn    *ws.Conn
	greeted resumed // by the last socket
	heard   int64
	said    []string // all that was to be said so far
}

// resumed is what Svc.resumed and Svc.acked tell.
type resumed struct{ Received, Sent int64 }

// steady returns a client of a socket, by way of via (host:port) if that is
// given, which has not connected yet.
func (w *worker) steady(t testing.TB, rest, via string) *steady {
	t.Helper()
	address := w.socket(rest) + "?ct=" + w.token(t, ticket.Control)
	if via != "" {
		address = strings.Replace(address, w.address, via, 1)
	}
	return &steady{t: t, address: address}
}

// open connects for good.
func (w *worker) open(t testing.TB, rest string) *steady {
	t.Helper()
	s := w.steady(t, rest, "")
	s.must(s.connect())
	return s
}

func (s *steady) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// dial connects, which may be to be told to go away.
func (s *steady) dial() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	conn, err := ws.Dial(ctx, fmt.Sprintf("%s&resume=%d", s.address, s.heard), nil, ws.Options{ReadLimit: -1})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	s.conn = conn
	return nil
}

// connect connects, for the first time or again, and says again what the browser
// has not got.
func (s *steady) connect() error {
	if err := s.dial(); err != nil {
		return err
	}
	if err := s.greet("Svc.resumed"); err != nil {
		return err
	}
	if s.greeted.Received > int64(len(s.said)) {
		return fmt.Errorf("the browser got %d messages, and %d were said", s.greeted.Received, len(s.said))
	}
	for _, message := range s.said[s.greeted.Received:] {
		if err := s.write(message); err != nil {
			return err
		}
	}
	return nil
}

// greet reads a message of the worker's own.
func (s *steady) greet(method string) error {
	text, err := s.read()
	if err != nil {
		return err
	}
	var message struct {
		Method string
		Params resumed
	}
	if err := json.Unmarshal([]byte(text), &message); err != nil || message.Method != method {
		return fmt.Errorf("heard %.100s, want %s: %w", text, method, err)
	}
	s.greeted = message.Params
	return nil
}

func (s *steady) read() (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, message, err := s.conn.Read(ctx)
	return string(message), err
}

func (s *steady) write(message string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	return s.conn.Write(ctx, ws.Text, []byte(message))
}

// say says something, now or with the next socket.
func (s *steady) say(message string) {
	s.said = append(s.said, message)
	_ = s.write(message)
}

// hear waits for the next message of the browser's.
func (s *steady) hear() (string, error) {
	message, err := s.read()
	if err == nil {
		s.heard++
	}
	return message, err
}

// cut cuts the socket off without a word.
func (s *steady) cut() { s.conn.CloseNow() }

// refusal is the status that the worker closes an attempt to connect with.
func (s *steady) refusal() ws.Status {
	s.t.Helper()
	s.must(s.dial())
	_, err := s.read()
	return ws.CloseStatus(err)
}

// scissors stand between a client and the worker, and cut its connections.
type scissors struct {
	net.Listener
	worker string

	mu           sync.Mutex
	toward, back int64 // after how many bytes the next connection is cut; -1 for never
	hang         bool  // rather than be cut
	conns        []net.Conn
}

func newScissors(t testing.TB, worker string) *scissors {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scissors{Listener: listener, worker: worker, toward: -1, back: -1}
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

// set says after how many bytes the next connection is cut, in each direction.
func (s *scissors) set(toward, back int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toward, s.back, s.hang = toward, back, false
}

// freeze lets the next connection hang after so many bytes in either direction.
func (s *scissors) freeze(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toward, s.back, s.hang = at, at, true
}

func (s *scissors) pass(client net.Conn) {
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
	move := func(to, from net.Conn, bytes int64) {
		if bytes < 0 {
			_, _ = io.Copy(to, from)
		} else {
			_, _ = io.CopyN(to, from, bytes)
		}
		if !hang {
			once.Do(func() {
				_ = client.(*net.TCPConn).SetLinger(0) // the test's client takes an orderly end within a message for the message's
				client.Close()
				worker.Close()
			})
		}
	}
	both.Go(func() { move(worker, client, toward) })
	both.Go(func() { move(client, worker, back) })
	both.Wait()
}
