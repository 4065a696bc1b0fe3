package cdp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// fakeBrowser is the browser's end of the pipes.
type fakeBrowser struct {
	reader *bufio.Reader
	out    *os.File
	raw    *os.File
}

type frame struct {
	ID        int64           `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
}

func dial(t *testing.T) (*cdp.Conn, *fakeBrowser) {
	t.Helper()
	fromBrowser, browserOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	browserIn, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := cdp.New(fromBrowser, toBrowser)
	t.Cleanup(func() {
		c.Close()
		browserIn.Close()
		browserOut.Close()
	})
	return c, &fakeBrowser{reader: bufio.NewReader(browserIn), out: browserOut, raw: browserIn}
}

func (p *fakeBrowser) read(t *testing.T) frame {
	t.Helper()
	raw, err := p.reader.ReadBytes(0)
	if err != nil {
		t.Fatal(err)
	}
	var f frame
	if err := json.Unmarshal(raw[:len(raw)-1], &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (p *fakeBrowser) send(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\x00", args...)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCall_ReturnsOwnAnswer(t *testing.T) {
	c, p := dial(t)
	const n = 50
	go func() {
		var calls []frame
		for range n {
			calls = append(calls, p.read(t))
		}
		for i := len(calls) - 1; i >= 0; i-- {
			p.send(`{"id":%d,"sessionId":"S","result":{"echo":%s}}`, calls[i].ID, calls[i].Params)
		}
	}()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var got struct{ Echo struct{ N int } }
			if err := c.Call(within(t), "S", "Test.echo", map[string]int{"n": i}, &got); err != nil {
				t.Error(err)
			}
			if got.Echo.N != i {
				t.Errorf("call %d got the answer of %d", i, got.Echo.N)
			}
		})
	}
	wg.Wait()
}

func TestCall_ReturnsBrowserError(t *testing.T) {
	c, p := dial(t)
	go func() {
		f := p.read(t)
		p.send(`{"id":%d,"error":{"code":-32601,"message":"no such method"}}`, f.ID)
	}()
	err := c.Call(within(t), "", "No.such", nil, nil)
	var refusal *cdp.Error
	if !errors.As(err, &refusal) || refusal.Code != -32601 {
		t.Fatalf("got %v, want code -32601", err)
	}
	if !strings.Contains(err.Error(), "No.such") {
		t.Errorf("%q does not name the method", err)
	}
}

func TestCall_EndsWithContextWhenBrowserDoesNotRead(t *testing.T) {
	c, _ := dial(t)
	big := strings.Repeat("x", 100<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 30 {
		if err := c.Call(ctx, "", "Test.big", big, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want a deadline", err)
		}
	}
}

// TestWait_PrefersAnswer waits for answers that arrived before the end of the connection and
// before that of the context.
func TestWait_PrefersAnswer(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 30 {
		c, p := dial(t)
		answered, err := c.Send(t.Context(), "", "Browser.close", nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.Send(t.Context(), "", "Test.other", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.send(`{"id":%d,"result":{}}`, p.read(t).ID)
		}
		p.out.Close()
		<-c.Done()
		if err := answered.Wait(t.Context(), nil); err != nil {
			t.Fatalf("after the end of the connection: %v", err)
		}
		if err := other.Wait(ended, nil); err != nil {
			t.Fatalf("after the end of the context: %v", err)
		}
	}
}

func TestConn_BrowserExitFailsCallsAndSubscriptions(t *testing.T) {
	c, p := dial(t)
	s := c.Subscribe(1)
	go func() {
		p.read(t)
		p.out.Close()
	}()
	if err := c.Call(within(t), "", "Test.never", nil, nil); !errors.Is(err, cdp.ErrClosed) || !errors.Is(err, io.EOF) {
		t.Errorf("call: got %v, want closed by EOF", err)
	}
	if _, open := <-s.Events(); open {
		t.Error("the subscription did not end")
	}
	if !errors.Is(s.Err(), cdp.ErrClosed) {
		t.Errorf("subscription: got %v, want closed", s.Err())
	}
	if err := c.Call(within(t), "", "Test.after", nil, nil); !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("later call: got %v, want closed", err)
	}
}

func TestSubscription_DeliversMethodsInOrder(t *testing.T) {
	c, p := dial(t)
	s := c.Subscribe(10, "A.x")
	defer s.Close()
	p.send(`{"method":"A.x","params":{"n":1},"sessionId":"S1"}`)
	p.send(`{"method":"B.y","params":{"n":2}}`)
	p.send(`{"method":"A.x","params":{"n":3}}`)
	for _, want := range []cdp.Event{
		{SessionID: "S1", Method: "A.x", Params: json.RawMessage(`{"n":1}`)},
		{Method: "A.x", Params: json.RawMessage(`{"n":3}`)},
	} {
		select {
		case got := <-s.Events():
			if got.SessionID != want.SessionID || string(got.Params) != string(want.Params) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		case <-within(t).Done():
			t.Fatal("no event")
		}
	}
}

func TestSubscription_FullQueueEndsSubscription(t *testing.T) {
	c, p := dial(t)
	slow := c.Subscribe(2)
	for n := range 5 {
		p.send(`{"method":"A.x","params":{"n":%d}}`, n)
	}
	go func() {
		f := p.read(t)
		p.send(`{"id":%d,"result":{}}`, f.ID)
	}()
	if err := c.Call(within(t), "", "Test.ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	count := 0
	for range slow.Events() {
		count++
	}
	if count != 2 || !errors.Is(slow.Err(), cdp.ErrLagged) {
		t.Errorf("got %d events and %v, want 2 and lagged", count, slow.Err())
	}
}

func TestClose_IsIdempotent(t *testing.T) {
	c, p := dial(t)
	p.send(`{"method":"A.x"}`)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-c.Done():
	default:
		t.Error("not done")
	}
	if _, err := p.reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the browser's input: got %v, want EOF", err)
	}
}

func TestConn_InvalidMessageEndsConnection(t *testing.T) {
	c, p := dial(t)
	p.send(`{"id":`)
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Fatal("the connection did not end")
	}
	if err := c.Err(); !errors.Is(err, cdp.ErrClosed) || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("got %v", err)
	}
}

func TestFlush_WaitsForReceiver(t *testing.T) {
	c, p := dial(t)
	s := c.Subscribe(10, "A.x")
	for n := range 3 {
		p.send(`{"method":"A.x","params":{"n":%d}}`, n)
	}
	go func() {
		f := p.read(t)
		p.send(`{"id":%d,"result":{}}`, f.ID)
	}()
	if err := c.Call(within(t), "", "Test.ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	handled := 0
	go func() {
		for e := range s.Events() {
			if e.Flushed != nil {
				close(e.Flushed)
				continue
			}
			handled++
		}
	}()
	if err := s.Flush(within(t)); err != nil || handled != 3 {
		t.Errorf("%d events were handled, %v; want 3", handled, err)
	}
	s.Close()
	if err := s.Flush(within(t)); err != nil {
		t.Errorf("after Close: %v", err)
	}
	full := c.Subscribe(1, "A.x")
	full.Flush(canceled(t))
	if err := full.Flush(within(t)); !errors.Is(err, cdp.ErrLagged) {
		t.Errorf("with a full queue: %v, want lagged", err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
