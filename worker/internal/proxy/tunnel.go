package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	idleLimit       = time.Hour       // of a tunnel that carries nothing; a dead peer is found by TCP's keep-alive
	halfClosedLimit = 2 * time.Minute // the same once one side has said that it is done
)

// tunnel serves CONNECT.
func (f *Forwarder) tunnel(w http.ResponseWriter, r *http.Request, by *route) {
	server, err := by.connect(r.Context(), r.Host, r.UserAgent())
	if err != nil {
		f.fail(w, r.Host, err)
		return
	}
	defer server.Close()
	hijacked, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.fail(w, r.Host, err)
		return
	}
	defer hijacked.Close()
	client, ok := hijacked.(duplex)
	if !ok {
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	from, fromTCP := client.(*conn)
	to, toTCP := server.(*conn)
	if fromTCP && toTCP && to.with == destination {
		splice(from, to, buffered.Reader, halfClosedLimit)
		return
	}
	relay(&readAhead{duplex: client, reader: buffered.Reader}, server)
}

// relay carries bytes both ways until both sides are done, one of them fails,
// or nothing passes for too long.
func relay(client, server duplex) {
	abort := func() {
		past := time.Unix(1, 0)
		_ = client.SetDeadline(past)
		_ = server.SetDeadline(past)
	}
	idle := newWatch(idleLimit, abort)
	defer idle.stop()
	pass := func(to, from duplex) {
		if carry(to, from, idle) != nil || to.CloseWrite() != nil {
			abort()
			return
		}
		idle.limit(halfClosedLimit)
	}
	var other sync.WaitGroup
	other.Go(func() { pass(server, client) })
	pass(client, server)
	other.Wait()
}

// carry copies until the end of from, which is no error.
func carry(to io.Writer, from io.Reader, idle *watch) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			idle.touch()
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// watch calls a function when it was not touched for a while.
type watch struct {
	mu    sync.Mutex
	after time.Duration
	timer *time.Timer
}

func newWatch(after time.Duration, bark func()) *watch {
	return &watch{after: after, timer: time.AfterFunc(after, bark)}
}

func (w *watch) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.after)
}

func (w *watch) limit(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = after
	w.timer.Reset(after)
}

func (w *watch) stop() { w.timer.Stop() }
