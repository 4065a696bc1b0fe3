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
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// Close statuses in addition to the standard ones. page/stream.js uses the same
// numbers.
const (
	browserEnded   ws.Status = 4001
	tooManyViewers ws.Status = 1013 // "try again later"
)

const (
	maxMessage  = 4 << 20          // bytes of one message of a viewer, such as a clipboard
	pongTimeout = 10 * time.Second // also the timeout of writes to a viewer
	endTimeout  = 3 * time.Second  // a display may end shortly before its browser
)

// viewerSlot groups the streams of a launch that share a limit. Viewers without
// control do not use the slots of those with control.
type viewerSlot struct {
	launchID string
	use      ticket.Use
}

// stream connects a viewer to the picture of a browser. The stream continues
// when its ticket expires, but the ticket opens no other.
func (s *Service) stream(c echo.Context, v access.AuthorizedRequest) error {
	events, err := wantsEvents(c.QueryParams()[eventsQuery])
	if err != nil {
		return err
	}
	joined, leave := s.addViewer(viewerSlot{v.LaunchID, v.Use})
	if leave == nil {
		return fault.New(fault.Unavailable, "The worker is shutting down.")
	}
	defer leave()
	// Package access has already checked the origin where needed.
	conn, err := ws.Accept(c.Response(), c.Request(), ws.Options{Origins: []string{"*"}, ReadLimit: maxMessage})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	if !joined {
		_ = conn.Close(tooManyViewers, "too many viewers")
		return nil
	}
	s.serveStream(conn, v, events)
	return nil
}

// addViewer counts a viewer if a slot is free. leave is nil if the service is
// closed.
func (s *Service) addViewer(slot viewerSlot) (joined bool, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false, nil
	}
	s.streams.Add(1)
	if s.viewers[slot] >= s.MaxViewers {
		return false, s.streams.Done
	}
	s.viewers[slot]++
	return true, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.viewers[slot]--; s.viewers[slot] == 0 {
			delete(s.viewers, slot)
		}
		s.streams.Done()
	}
}

// serveStream streams until either side ends and closes the connection with the
// reason.
func (s *Service) serveStream(conn *ws.Conn, v access.AuthorizedRequest, events bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // outlives the close handshake
	defer cancel()
	watcher := &viewerConn{Conn: conn.Stream(ctx, ws.Binary), finished: make(chan struct{})}
	defer countClient(v)()
	var work sync.WaitGroup
	work.Go(func() {
		defer watcher.finish()
		err := s.Streamer.Stream(ctx, watcher, v.Browser, v.Use == ticket.Control)
		s.Logger.Debug("a live view ended", "launchId", v.LaunchID, "error", err)
	})
	work.Go(func() { s.ping(ctx, conn) })
	if events {
		work.Go(func() { s.sendEvents(ctx, conn, v) })
	}
	status, reason := s.waitForEnd(v, watcher)
	_ = conn.Close(status, reason)
	cancel()
	work.Wait()
}

// countClient counts a viewer as a client. A viewer without control does not
// keep the browser from being idle (specification 5.5.5).
func countClient(v access.AuthorizedRequest) (leave func()) {
	if v.Use == ticket.Control {
		return v.Activity.Watch(nil)
	}
	v.Activity.Use()
	return v.Activity.Count()
}

// waitForEnd waits for the end of a stream and returns the close status and
// reason.
func (s *Service) waitForEnd(v access.AuthorizedRequest, watcher *viewerConn) (ws.Status, string) {
	select {
	case <-v.Done:
	case <-s.ctx.Done():
	case <-watcher.finished:
	}
	patience := endTimeout
	if watcher.failed.Load() {
		patience = 0
	}
	select {
	case <-v.Done:
		return browserEnded, "the browser has ended"
	case <-s.ctx.Done():
		return ws.GoingAway, "the worker is shutting down"
	case <-time.After(patience):
		return ws.InternalError, "the stream was interrupted"
	}
}

// ping closes the connection if the viewer does not answer.
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

// viewerConn is the connection given to the streamer. serveStream, not the
// streamer, closes the WebSocket.
type viewerConn struct {
	net.Conn
	failed   atomic.Bool // the connection is unusable
	once     sync.Once
	finished chan struct{} // closed when the streamer has finished
}

// Read implements net.Conn.
func (v *viewerConn) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if err != nil {
		v.failed.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (v *viewerConn) Write(p []byte) (int, error) {
	n, err := v.Conn.Write(p)
	if err != nil {
		v.failed.Store(true)
	}
	return n, err
}

// Close ends the stream. serveStream then closes the connection.
func (v *viewerConn) Close() error {
	v.finish()
	return nil
}

func (v *viewerConn) finish() { v.once.Do(func() { close(v.finished) }) }
