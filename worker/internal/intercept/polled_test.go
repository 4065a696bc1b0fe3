package intercept

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// limited is a connection that accepts few bytes without waiting.
type limited struct {
	written
	accepts int
	fails   error
}

func (l *limited) TryWrite(p []byte) (int, error) {
	n, _ := l.Write(p[:min(len(p), l.accepts)])
	return n, l.fails
}

func (l *limited) SetWriteDeadline(time.Time) error { return nil }

func (l *limited) Poll(func([]byte) (int, bool)) ([]byte, error) { return nil, errors.ErrUnsupported }

func TestBrowserStream_KeepsOrderIfClientIsSlow(t *testing.T) {
	long, short := wsframe.FromServer(wsframe.Text, bytes.Repeat([]byte("x"), 300)), wsframe.FromServer(wsframe.Text, []byte("y"))
	answer, closeFrame := []byte("answer"), wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(wsframe.GoingAway, "end"))
	for name, tc := range map[string]struct {
		then func(o *BrowserStream)
		want [][]byte
	}{
		"a message of the browser": {func(o *BrowserStream) { _ = o.forward(short) }, [][]byte{long, short}},
		"nothing":                  {func(o *BrowserStream) { _ = o.forward(nil) }, [][]byte{long}},
		"an answer of the worker":  {func(o *BrowserStream) { _ = o.Send(answer) }, [][]byte{long, wsframe.FromServer(wsframe.Text, answer)}},
		"the end":                  {func(o *BrowserStream) { o.SendClose(wsframe.GoingAway, "end") }, [][]byte{long, closeFrame}},
	} {
		for _, accepts := range []int{0, 1, 100, len(long) - 1} {
			to := &limited{accepts: accepts}
			o := &BrowserStream{conn: to}
			if handled, more, err := o.tryForward(to, long); handled != len(long) || more || err != nil {
				t.Fatalf("got %d, %v, %v", handled, more, err)
			}
			if handled, more, err := o.tryForward(to, short); handled != 0 || more || err != nil {
				t.Errorf("a later message overtook: %d, %v, %v", handled, more, err)
			}
			tc.then(o)
			if want := bytes.Join(tc.want, nil); !bytes.Equal(to.Bytes(), want) {
				t.Errorf("%s after %d bytes: got %q, want %q", name, accepts, to.Bytes(), want)
			}
		}
	}
}

func TestBrowserStream_TryForwardLeavesWhatMayTakeTime(t *testing.T) {
	message := wsframe.FromServer(wsframe.Text, []byte("{}"))
	for name, prepare := range map[string]func(o *BrowserStream, to *limited){
		"another writer":         func(o *BrowserStream, _ *limited) { o.mu.Lock() },
		"an awaited answer":      func(o *BrowserStream, _ *limited) { o.frames.awaited = func() bool { return true } },
		"a pending answer":       func(o *BrowserStream, _ *limited) { o.pending = []byte("x") },
		"a message that is read": func(o *BrowserStream, _ *limited) { o.frames.collecting = true },
	} {
		to := &limited{accepts: 1 << 20}
		o := &BrowserStream{conn: to}
		prepare(o, to)
		if handled, more, err := o.tryForward(to, message); handled != 0 || more || err != nil || to.Len() > 0 {
			t.Errorf("%s: got %d, %v, %v and %q", name, handled, more, err, to.Bytes())
		}
	}
	to := &limited{accepts: 1 << 20}
	if handled, more, err := (&BrowserStream{conn: to}).tryForward(to, message); handled != len(message) || !more || err != nil {
		t.Errorf("got %d, %v, %v", handled, more, err)
	}
	failing := &limited{fails: errors.New("broken")}
	o := &BrowserStream{conn: failing}
	if _, more, err := o.tryForward(failing, message); more || !errors.Is(err, failing.fails) {
		t.Errorf("got %v, %v", more, err)
	}
	if o.SendClose(wsframe.Normal, ""); failing.Len() > 0 {
		t.Errorf("after an error, %q was sent", failing.Bytes())
	}
}
