package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	idleLimit       = time.Hour       // of an idle tunnel; TCP keep-alive detects a dead peer
	halfClosedLimit = 2 * time.Minute // the same after one side has closed
)

// tunnel serves CONNECT.
func (f *Forwarder) tunnel(w http.ResponseWriter, r *http.Request, via *route) {
	server, err := via.connect(r.Context(), r.Host, r.Header)
	if err != nil {
		f.fail(w, r.Host, err)
		return
	}
	defer server.Close()
	countsOf(r.Context()).connections.Add(1)
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
	if t := f.terminatorFor(r.Host); t != nil {
		f.tunnelTLS(r, t, &bufferedConn{duplex: client, reader: buffered.Reader}, server, via)
		return
	}
	clientConn, fromTCP := client.(*conn)
	serverConn, toTCP := server.(*conn)
	if fromTCP && toTCP && serverConn.peer == destination && !f.conns.limits.rules.Load().LimitsBytes() {
		splice(clientConn, serverConn, buffered.Reader, halfClosedLimit)
		return
	}
	relay(&bufferedConn{duplex: client, reader: buffered.Reader}, server)
}

// relay copies bytes in both directions until both sides are done, one fails, or the
// tunnel is idle for too long.
func relay(client, server duplex) {
	abort := func() {
		past := time.Unix(1, 0)
		_ = client.SetDeadline(past)
		_ = server.SetDeadline(past)
	}
	idle := newIdleTimer(idleLimit, abort)
	defer idle.stop()
	pass := func(dst, src duplex) {
		if copyData(dst, src, idle) != nil || dst.CloseWrite() != nil {
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

// copyData copies until the end of src, which is not an error.
func copyData(dst io.Writer, src io.Reader, idle *idleTimer) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			idle.reset()
			if _, err := dst.Write(buf[:n]); err != nil {
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

// idleTimer calls a function if it is not reset for a while.
type idleTimer struct {
	mu      sync.Mutex
	timeout time.Duration
	timer   *time.Timer
}

func newIdleTimer(after time.Duration, onIdle func()) *idleTimer {
	return &idleTimer{timeout: after, timer: time.AfterFunc(after, onIdle)}
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
