package view

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// How streams end, beside the usual ways; page/stream.js knows the numbers.
const (
	browserEnded   ws.Status = 4001
	tooManyViewers ws.Status = 1013 // "try again later"
)

const (
	maxMessage  = 4 << 20          // bytes that a viewer may send at once: a clipboard
	pongTimeout = 10 * time.Second // also how long a viewer may take nothing
	endTimeout  = 3 * time.Second  // a display may be gone a moment before its browser counts as ended
)

// seat is what streams of one launch compete for: whoever may only watch takes
// none from those who may drive.
type seat struct {
	launchID string
	use      ticket.Use
}

// stream connects a viewer to the browser's picture. A ticket that expires
// meanwhile doesn't end it: it opens no other.
func (s *Service) stream(c echo.Context, v access.AuthorizedRequest) error {
	joined, leave := s.join(seat{v.LaunchID, v.Use})
	if leave == nil {
		return fault.New(fault.Unavailable, "The worker is shutting down.")
	}
	defer leave()
	// The gate has looked at the origin, where it matters.
	conn, err := ws.Accept(c.Response(), c.Request(), ws.Options{Origins: []string{"*"}, ReadLimit: maxMessage})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	if !joined {
		_ = conn.Close(tooManyViewers, "too many are watching")
		return nil
	}
	s.show(conn, v)
	return nil
}

// join counts a viewer in, if there is room. leave is nil when the service is
// closed.
func (s *Service) join(in seat) (joined bool, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false, nil
	}
	s.streams.Add(1)
	if s.viewers[in] >= s.MaxViewers {
		return false, s.streams.Done
	}
	s.viewers[in]++
	return true, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.viewers[in]--; s.viewers[in] == 0 {
			delete(s.viewers, in)
		}
		s.streams.Done()
	}
}

// show streams until somebody has had enough, and tells the viewer why.
func (s *Service) show(conn *ws.Conn, v access.AuthorizedRequest) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // outlives the closing words
	defer cancel()
	watcher := &viewer{Conn: conn.Stream(ctx, ws.Binary), dismissed: make(chan struct{})}
	defer count(v)()
	var work sync.WaitGroup
	work.Go(func() {
		defer watcher.dismiss()
		err := s.Streamer.Stream(ctx, watcher, v.Browser, v.Use == ticket.Control)
		s.Logger.Debug("a live view ended", "launchId", v.LaunchID, "error", err)
	})
	work.Go(func() { s.ping(ctx, conn) })
	status, reason := s.await(v, watcher)
	_ = conn.Close(status, reason)
	cancel()
	work.Wait()
}

// count counts a viewer as a client. One who only watches keeps no browser from
// being idle (specification 5.5.5).
func count(v access.AuthorizedRequest) (leave func()) {
	if v.Use == ticket.Control {
		return v.Activity.Watch(nil)
	}
	return v.Activity.Count()
}

// await waits for the end of a stream, and says what to call it.
func (s *Service) await(v access.AuthorizedRequest, watcher *viewer) (ws.Status, string) {
	select {
	case <-v.Done:
	case <-s.ctx.Done():
	case <-watcher.dismissed:
	}
	patience := endTimeout
	if watcher.gone.Load() {
		patience = 0
	}
	select {
	case <-v.Done:
		return browserEnded, "the browser has ended"
	case <-s.ctx.Done():
		return ws.GoingAway, "the worker is shutting down"
	case <-time.After(patience):
		return ws.InternalError, "the stream broke off"
	}
}

// ping closes the connection when the viewer no longer answers.
func (s *Service) ping(ctx context.Context, conn *ws.Conn) {
	tick := time.NewTicker(s.PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, pongTimeout)
		err := conn.Ping(within)
		cancel()
		if err != nil {
			_ = conn.CloseNow()
			return
		}
	}
}

// viewer is the connection as the streamer has it: it leaves the last word to
// show.
type viewer struct {
	net.Conn
	gone      atomic.Bool // the connection is of no more use
	once      sync.Once
	dismissed chan struct{} // closed when the streamer is through with it
}

// Read implements net.Conn.
func (v *viewer) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if err != nil {
		v.gone.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (v *viewer) Write(p []byte) (int, error) {
	n, err := v.Conn.Write(p)
	if err != nil {
		v.gone.Store(true)
	}
	return n, err
}

// Close asks for the end of the connection, which then fails reads and writes.
func (v *viewer) Close() error {
	v.dismiss()
	return nil
}

func (v *viewer) dismiss() { v.once.Do(func() { close(v.dismissed) }) }
