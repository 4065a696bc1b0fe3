package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	idleLimit       = time.Hour       // slots a tunnel that carries nothing; a dead peer is found by TCP's keep-alive
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
	if fromTCP && toTCP && to.peer == destination {
		splice(from, to, buffered.Reader, halfClosedLimit)
		return
	}
	relay(&bufferedConn{duplex: client, reader: buffered.Reader}, server)
}

// relay carries bytes both ways until both sides are done, one of them fails,
// or nothing passes for too long.
func relay(client, server duplex) {
	abort := func() {
		past := time.Unix(1, 0)
		_ = client.SetDeadline(past)
		_ = server.SetDeadline(past)
	}
	idle := newIdleTimer(idleLimit, abort)
	defer idle.stop()
	pass := func(to, from duplex) {
		if copyData(to, from, idle) != nil || to.CloseWrite() != nil {
			abort()
			return
		}
		idle.setTimeout(halfClosedLimit)
	}
	var other sync.WaitGroup
	other.Go(func() { pass(server, client) })
	pass(client, server)
	other.Wait()
}

// copyData copies until the end of from, which is no error.
func copyData(to io.Writer, from io.Reader, idle *idleTimer) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			idle.reset()
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

// idleTimer calls a function when it was not touched for a while.
type idleTimer struct {
	mu      sync.Mutex
	timeout time.Duration
	timer   *time.Timer
}

func newIdleTimer(after time.Duration, bark func()) *idleTimer {
	return &idleTimer{timeout: after, timer: time.AfterFunc(after, bark)}
}

func (w *idleTimer) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.timeout)
}

func (w *idleTimer) setTimeout(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timeout = after
	w.timer.Reset(after)
}

func (w *idleTimer) stop() { w.timer.Stop() }
