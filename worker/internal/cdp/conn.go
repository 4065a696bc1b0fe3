package cdp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxMessage is the maximum size of a message from the browser, in bytes.
const MaxMessage = 128 << 20

// ErrClosed is returned by calls on a closed connection.
var ErrClosed = errors.New("cdp: connection closed")

// Error is the browser's error answer to a call.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	if e.Data == "" {
		return fmt.Sprintf("cdp: %s (%d)", e.Message, e.Code)
	}
	return fmt.Sprintf("cdp: %s: %s (%d)", e.Message, e.Data, e.Code)
}

// Event is a CDP event. SessionID is empty for the browser's own session.
type Event struct {
	SessionID string
	Method    string
	Params    json.RawMessage

	Flushed chan struct{} // set only in the event of Flush, whose receiver closes it
}

// Conn is a connection to one browser. It is safe for concurrent use.
type Conn struct {
	input  io.ReadCloser
	output io.WriteCloser

	outbox chan []byte
	hold   func() (release func()) // of OnCall
	done   chan struct{}
	loops  sync.WaitGroup // the reader and the writer

	mu      sync.Mutex
	nextID  int64
	waiting map[int64]chan<- message
	subs    map[*Subscription]struct{}
	err     error
}

type message struct {
	ID        int64           `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
}

type request struct {
	ID        int64  `json:"id"`
	SessionID string `json:"sessionId,omitempty"`
	Method    string `json:"method"`
	Params    any    `json:"params,omitempty"`
}

// New starts a connection that reads the browser's messages from input and
// writes messages to output. The connection owns both.
func New(input io.ReadCloser, output io.WriteCloser) *Conn {
	c := &Conn{
		input: input, output: output,
		outbox:  make(chan []byte, 16),
		hold:    func() func() { return func() {} },
		done:    make(chan struct{}),
		waiting: make(map[int64]chan<- message),
		subs:    make(map[*Subscription]struct{}),
	}
	c.loops.Go(c.read)
	c.loops.Go(c.write)
	return c
}

// OnCall has hold called before each call is sent, except those of Probe, and the
// function that it returns when the call has ended. It must be called before the first
// call. Neither function may block.
func (c *Conn) OnCall(hold func() (release func())) { c.hold = hold }

// Call sends method with params (any JSON value, or nil) to a session ("" is the
// browser itself) and decodes the answer into result unless that is nil. It returns
// an *Error if the browser refuses the call, an error that wraps ErrClosed if the
// connection ends first, and ctx's error if ctx ends first. A late answer is dropped.
func (c *Conn) Call(ctx context.Context, sessionID, method string, params, result any) error {
	r, err := c.Send(ctx, sessionID, method, params)
	if err != nil {
		return err
	}
	return r.Wait(ctx, result)
}

// Send sends a request without waiting for the answer. Requests reach the browser in
// the order in which Send returned. The caller must call Wait or Discard on the
// Reply.
func (c *Conn) Send(ctx context.Context, sessionID, method string, params any) (*Reply, error) {
	release := c.hold()
	r, err := c.send(ctx, sessionID, method, params)
	if err != nil {
		release()
		return nil, err
	}
	r.release = release
	return r, nil
}

// Probe asks the browser for its version, to find out whether it answers. It is no call
// for OnCall.
func (c *Conn) Probe(ctx context.Context) error {
	r, err := c.send(ctx, "", "Browser.getVersion", nil)
	if err != nil {
		return err
	}
	return r.Wait(ctx, nil)
}

func (c *Conn) send(ctx context.Context, sessionID, method string, params any) (*Reply, error) {
	r := &Reply{conn: c, method: method, answer: make(chan message, 1), release: func() {}}
	if err := c.register(r); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	frame, err := json.Marshal(request{ID: r.id, SessionID: sessionID, Method: method, Params: params})
	if err != nil {
		c.unregister(r.id)
		return nil, fmt.Errorf("%s: encode: %w", method, err)
	}
	select {
	case c.outbox <- append(frame, 0):
		return r, nil
	case <-c.done:
		return nil, fmt.Errorf("%s: %w", method, c.Err())
	case <-ctx.Done():
		c.unregister(r.id)
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, always wrapping ErrClosed; nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, fails the calls in flight and waits for its
// goroutines. It may be called again.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	c.loops.Wait()
	return nil
}

func (c *Conn) register(r *Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.nextID++
	r.id = c.nextID
	c.waiting[r.id] = r.answer
	return nil
}

func (c *Conn) unregister(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// fail closes both pipes once, which ends the reader and the writer.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	for s := range c.subs {
		s.finish(err)
	}
	clear(c.subs)
	c.input.Close()
	c.output.Close()
}

// readAhead is small because each browser keeps one buffer of this size. Longer
// frames are assembled from parts.
const readAhead = 8 << 10

func (c *Conn) read() {
	r := bufio.NewReaderSize(c.input, readAhead)
	for {
		frame, err := readFrame(r)
		if err != nil {
			c.fail(fmt.Errorf("%w: read: %w", ErrClosed, err))
			return
		}
		var m message
		if err := json.Unmarshal(frame, &m); err != nil {
			c.fail(fmt.Errorf("%w: malformed message: %w", ErrClosed, err))
			return
		}
		c.dispatch(m)
	}
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	var frame []byte
	for {
		part, err := r.ReadSlice(0)
		if len(frame)+len(part) > MaxMessage {
			return nil, errors.New("message too long")
		}
		frame = append(frame, part...)
		if err == nil {
			return bytes.TrimSuffix(frame, []byte{0}), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func (c *Conn) dispatch(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.ID != 0 {
		if answer, ok := c.waiting[m.ID]; ok {
			delete(c.waiting, m.ID)
			answer <- m
		}
		return
	}
	e := Event{SessionID: m.SessionID, Method: m.Method, Params: m.Params}
	for s := range c.subs {
		if s.matches(e.Method) {
			s.deliver(e)
		}
	}
}

func (c *Conn) write() {
	for {
		select {
		case frame := <-c.outbox:
			if _, err := c.output.Write(frame); err != nil {
				c.fail(fmt.Errorf("%w: write: %w", ErrClosed, err))
				return
			}
		case <-c.done:
			return
		}
	}
}
