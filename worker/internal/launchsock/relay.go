package launchsock

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	closeTimeout = 3 * time.Second // for a close frame, and what was sent before it
	endTimeout   = 5 * time.Second // from the end of a browser's socket to its own
)

// errBrowserClosed means that the browser takes nothing more.
var errBrowserClosed = errors.New("the browser's socket has ended")

// forward passes frames both ways until one side, or the worker, ends, and sees to
// what follows from that.
func (s *Service) relay(client, up *ws.Raw, launched session.Session, keepAlive bool) {
	out := &browserStream{conn: client.Conn}
	in := &clientStream{browser: up.Conn, answer: s.answerer(out, launched), onClose: func() {}}
	if !keepAlive {
		in.onClose = func() { s.Launches.MarkLeaving(launched.LaunchID) }
	}
	var pumps sync.WaitGroup
	defer pumps.Wait()
	defer func() { _ = up.Conn.Close() }()
	defer func() { _ = client.Conn.Close() }()
	running, ok := s.Launches.Running(launched.LaunchID)
	if !ok { // it has ended meanwhile
		s.sendEndReason(out, launched)
		return
	}
	defer running.Activity.Watch(client.Conn)()

	fromClient, fromBrowser := make(chan error, 1), make(chan struct{})
	pumps.Go(func() { fromClient <- in.run(client) })
	pumps.Go(func() {
		defer close(fromBrowser)
		if err := out.run(up); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Logger.Debug("a launch socket broke off", "launchId", launched.LaunchID, "error", err)
		}
	})

	left := session.ClientClose
	select {
	case err := <-fromClient:
		out.sendErrorClose(err)
		if errors.Is(err, errBrowserClosed) {
			left = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-fromBrowser:
		if !in.closing.Load() { // otherwise it answered the client's goodbye
			left = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-running.Browser.Done():
		out.drain(fromBrowser)
		s.sendEndReason(out, launched)
		left = ""
	case <-s.ctx.Done():
		out.sendClose(wsframe.GoingAway, "the worker is shutting down")
		left = session.Drain
	}
	_ = client.Conn.Close()
	if left == session.Drain || left != "" && !keepAlive {
		s.endBrowser(launched, left)
	}
}

// drain waits, for a bounded time, until what the browser said last has gone to
// the client.
func (o *browserStream) drain(fromBrowser <-chan struct{}) {
	_ = o.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	select {
	case <-fromBrowser:
	case <-time.After(closeTimeout):
	}
}

// browserClosed tells a client why the browser's socket ended. Where the browser
// goes on all the same, the connection is what ended.
func (s *Service) browserClosed(out *browserStream, done <-chan struct{}, launched session.Session) session.EndReason {
	select {
	case <-done:
		s.sendEndReason(out, launched)
		return ""
	case <-s.ctx.Done():
		out.sendClose(wsframe.GoingAway, "the worker is shutting down")
		return session.Drain
	case <-time.After(endTimeout):
		return session.ClientClose
	}
}

// sendEndReason closes with the reason of the session's end, once the books have it: to
// kill what has ended is to wait for that.
func (s *Service) sendEndReason(out *browserStream, launched session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	ended, err := s.Launches.KillLaunch(ctx, launched.LaunchID, session.ClientClose)
	if err != nil {
		s.Logger.Warn("why a browser ended is not known", "launchId", launched.LaunchID, "error", err)
	}
	status := uint16(wsframe.Normal)
	if ended.EndReason == session.Drain {
		status = wsframe.GoingAway
	}
	out.sendClose(status, string(ended.EndReason))
}

// sendErrorClose tells a client what was wrong with its frames.
func (o *browserStream) sendErrorClose(err error) {
	switch {
	case errors.Is(err, wsframe.ErrProtocol):
		o.sendClose(wsframe.ProtocolError, "")
	case errors.Is(err, errTooManyAnswers):
		o.sendClose(wsframe.Policy, "")
	}
}

// run passes on what the browser sends until it ends.
func (o *browserStream) run(up *ws.Raw) error {
	if err := o.forward(up.Early); err != nil {
		return err
	}
	buffer := make([]byte, bufferSize)
	for {
		if n := o.remaining(); n >= passthroughThreshold {
			if err := o.forwardPayload(up.Conn, n); err != nil {
				return err
			}
		}
		n, err := up.Conn.Read(buffer)
		if n > 0 {
			if failed := o.forward(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
	}
}
